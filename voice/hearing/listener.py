"""Listens to one turn: looks at running speech while the user speaks, and the transcript when they are done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voice import metrics
from voice.engines.asr import Depth, Hypothesis, Listen, Transcript
from voice.errors import one_line
from voice.hearing.gates import judge
from voice.hearing.language import LanguageLock
from voice.hearing.rescoring import Score, likeliest
from voice.hearing.turn import Step, TurnHearing
from voice.hearing.words import Word, retimed, split, text_of
from voice.schedule.claims import Claim
from voice.schedule.recognition import Job, RecognitionQueue, Skipped

log = logging.getLogger(__name__)

CLAIMS = {Depth.PARTIAL: Claim.PARTIAL, Depth.SETTLE: Claim.RUNNING_SPEECH, Depth.FINAL: Claim.SPECULATION}

TOO_MANY_WAITING = 8
"""Requests before ours from which on a partial would come too late to be worth its place."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What was said in a turn. ``text`` is "" when nothing was; ``words`` have their places in the session's audio."""

    text: str
    words: tuple[Word, ...] = ()
    language: str | None = None


@dataclass(slots=True)
class _Guess:
    """A final begun in a pause. Right if the turn ends with no more speech than it heard."""

    last_voiced: int
    step: Step
    job: Job
    heard: asyncio.Task[Heard | Exception] = field(init=False)
    reading: tuple[Word, ...] | None = None
    overtaken: bool = False  # speech went on


@dataclass(frozen=True, slots=True)
class Observer:
    """What a listener reports, as it happens. Called on the event loop; must not raise."""

    words: Callable[[TurnHearing], None] = lambda hearing: None
    """The words that are known changed, or were confirmed."""

    job: Callable[[Step, Job], None] = lambda step, job: None
    """A look was taken; the job has its times."""


class TurnListener:
    """One turn's way through the recogniser. Nothing of it outlives :meth:`finish` or :meth:`close`."""

    def __init__(
        self,
        start: int,
        onset: int,
        *,
        queue: RecognitionQueue,
        audio: Callable[[int, int], NDArray[np.float32]],
        spawn: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]],
        language: LanguageLock,
        vocabulary: str | None = None,
        score: Score | None = None,
        observer: Observer | None = None,
    ) -> None:
        """``audio``: the samples of a range; ``spawn``: starts a task that the session owns; ``score``: the LLM's."""
        self.hearing = TurnHearing(start, onset)
        self._queue = queue
        self._audio = audio
        self._spawn = spawn
        self._language = language
        self._vocabulary = vocabulary
        self._score = score
        self._observer = observer or Observer()
        self._look: Job | None = None
        self._guess: _Guess | None = None
        self._last_voiced = onset

    def advance(self, now: int, last_voiced: int) -> None:
        """Audio has come up to ``now``; speech so far ended at ``last_voiced``. Looks when it is time to."""
        self._last_voiced = last_voiced
        guess = self._guess
        if guess is not None:
            if last_voiced <= guess.last_voiced:
                return  # silence: the guess is all there is to know
            self._drop_guess()
        if self._look is not None:
            return
        if self._queue.waiting >= TOO_MANY_WAITING:
            metrics.ASR_STEPS_SKIPPED.inc()
            return
        step = self.hearing.due(now, last_voiced)
        if step is not None:
            self._look = self._ask(step)
            self._spawn(self._follow(step, self._look))

    def likely_end(self, end: int, last_voiced: int) -> None:
        """The user has paused: begins the final on a guess."""
        self._drop_guess()
        self._last_voiced = last_voiced
        self._leave_look()
        step = self.hearing.final(end)
        guess = self._guess = _Guess(last_voiced, step, self._ask(step))
        guess.heard = self._spawn(self._hear(step, guess.job, guess))

    def finish(self, end: int, last_voiced: int) -> asyncio.Task[Heard | Exception]:
        """The turn is over: a task for its transcript, or for the reason why there is none."""
        guess = self._guess
        if guess is not None and guess.last_voiced == last_voiced and not guess.job.skipped:
            guess.job.promote(Claim.FINAL)
            metrics.ASR_GUESSES.labels("right").inc()
            return guess.heard
        self._drop_guess()
        self._leave_look()
        step = self.hearing.final(end)
        job = self._ask(step, Claim.FINAL)
        task: asyncio.Task[Heard | Exception] = self._spawn(self._hear(step, job))
        return task

    def close(self) -> None:
        """The turn is not wanted any more."""
        self._drop_guess()
        self._leave_look()

    def _ask(self, step: Step, claim: Claim | None = None) -> Job:
        samples = self._audio(step.start, step.end)
        request = Listen(samples, step.depth, self._language.current, self._vocabulary, step.timed)
        return self._queue.submit(request, CLAIMS[step.depth] if claim is None else claim)

    def _leave_look(self) -> None:
        """A look that has not begun would only hold up the final."""
        if self._look is not None and not self._look.begun:
            self._look.cancel()

    def _drop_guess(self) -> None:
        """Speech went on. What the guess read, or is reading, settles words; it is not waited for."""
        guess, self._guess = self._guess, None
        if guess is None:
            return
        metrics.ASR_GUESSES.labels("wrong").inc()
        guess.overtaken = True
        if guess.reading is not None:
            self._take(guess.step, guess.reading, guess.last_voiced)
        elif not guess.job.begun:
            guess.job.cancel()

    def _take(self, step: Step, words: Sequence[Word], last_voiced: int) -> None:
        self.hearing.take(step, words, last_voiced)
        self._observer.words(self.hearing)

    async def _read(self, step: Step, job: Job) -> tuple[Transcript, tuple[Word, ...]]:
        transcript = await job
        self._observer.job(step, job)
        self._language.learn(job.request, transcript)
        return transcript, believed(transcript, job.request, step)

    async def _follow(self, step: Step, job: Job) -> None:
        """Waits for a look, and takes note of what it saw. A look that fails costs only itself."""
        try:
            _, words = await self._read(step, job)
            if self.hearing.pace(job.latency_s):
                metrics.ASR_STEPS_WIDENED.inc()
            self._take(step, words, self._last_voiced)
        except Skipped:
            metrics.ASR_STEPS_SKIPPED.inc()
        except Exception as error:
            log.warning("a look at running speech failed: %s", one_line(error))
        finally:
            if self._look is job:
                self._look = None

    async def _hear(self, step: Step, job: Job, guess: _Guess | None = None) -> Heard | Exception:
        """The transcript, or why there is none: a task that raised would end the whole session."""
        try:
            transcript, words = await self._read(step, job)
            if guess is not None and guess.overtaken:
                self._take(step, words, guess.last_voiced)
                return Heard("")
            if guess is not None:
                guess.reading = words
            return await self._choose(step, transcript, words)
        except Skipped as skipped:
            return skipped
        except Exception as error:
            log.exception("transcription failed")
            return error

    async def _choose(self, step: Step, transcript: Transcript, words: tuple[Word, ...]) -> Heard:
        """The whole turn by the best reading. The others count only while the gates had nothing against the best."""
        turns = [self.hearing.completed(step, words)]
        readings = [Hypothesis(text_of(turns[0]), transcript.log_probability)]
        if self._score is None or not words or text_of(words) != transcript.text.strip():
            return Heard(readings[0].text, tuple(turns[0]), transcript.language)
        for other in transcript.alternatives:
            turn = self.hearing.completed(step, retimed(words, other.text))
            if text_of(turn) not in {reading.text for reading in readings}:
                readings.append(Hypothesis(text_of(turn), other.log_probability))
                turns.append(turn)
        chosen = await likeliest(readings, self._score)
        return Heard(readings[chosen].text, tuple(turns[chosen]), transcript.language)


def believed(transcript: Transcript, request: Listen, step: Step) -> tuple[Word, ...]:
    """The words of a reading that pass the gates, at their places in the session's audio."""
    verdict = judge(
        transcript.text,
        no_speech_probability=transcript.no_speech_probability,
        average_log_probability=transcript.average_log_probability,
        seconds=request.seconds,
        vocabulary=request.vocabulary,
    )
    if verdict.reason is not None:
        metrics.TRANSCRIPTS_JUDGED.labels(verdict.reason).inc()
    words: Sequence[Word] = [word.moved(step.start) for word in transcript.words]
    if not words:
        words = [Word(piece, step.start, step.end) for piece in split(verdict.text)]
    elif verdict.text != transcript.text.strip():
        words = retimed(words, verdict.text)
    return tuple(replace(word, end=min(word.end, step.end)) for word in words)
