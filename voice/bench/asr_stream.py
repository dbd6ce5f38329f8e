"""One recording, heard as a session hears it: frame by frame, with looks, guesses and a final at the endpoint."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voice.audio.formats import float_to_pcm16
from voice.audio.resample import resample
from voice.bench.asr_report import Measured, WordTiming
from voice.bench.recordings import RATE_HZ, Recording
from voice.engines.asr import Depth
from voice.engines.vad import VoiceActivityDetector
from voice.hearing.listener import Heard, Observer
from voice.hearing.turn import Step, TurnHearing
from voice.hearing.words import Word, spoken, text_of
from voice.protocol.session import PCM_RATE_HZ, PcmFormat
from voice.schedule.recognition import Job, RecognitionQueue
from voice.session.ingress import Ingress
from voice.session.listening import Listening
from voice.testing.clock import VirtualClockLoop
from voice.turn.machine import LikelyEnd, SpeechStarted, TurnEnded, TurnPolicy

LEAD_S = 0.5
"""Silence before each recording: a microphone is open before its user speaks."""

ENDPOINT_S = 0.5
"""Silence that ends a turn, as the service's default."""

FRAME_S = 0.02
_FOREVER_MS = 10**9

ONE_TURN = TurnPolicy(silence_ms=_FOREVER_MS, unchanged_ms=_FOREVER_MS, max_turn_ms=_FOREVER_MS)
"""A recording is one turn, whatever pauses it has; the benchmark ends it."""


class ComputeClockLoop(VirtualClockLoop):
    """Virtual time in which a thread's work takes as long as it really took: a stream without the waiting."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """Runs ``func`` at once; its result comes after that much virtual time."""
        import time

        future: asyncio.Future[Any] = self.create_future()
        started = time.perf_counter()
        try:
            finish: Callable[[Any], None] = future.set_result
            outcome: Any = func(*args)
        except Exception as error:
            finish, outcome = future.set_exception, error
        self.call_later(time.perf_counter() - started, lambda: None if future.cancelled() else finish(outcome))
        return future


@dataclass(slots=True)
class _Shown:
    """The words at one moment."""

    at: float
    heard_until: int  # samples
    words: list[str]
    settled: list[str]


@dataclass(slots=True)
class _Diary:
    """What happened in one turn."""

    clock: Callable[[], float]
    shown: list[_Shown] = field(default_factory=list)
    passes: list[tuple[Step, Job]] = field(default_factory=list)
    stable: str = ""
    retractions: int = 0
    revisions: int = 0

    def words(self, hearing: TurnHearing) -> None:
        words, settled, text = spoken(hearing.shown), spoken(hearing.settled), text_of(hearing.settled)
        self.retractions += not text.startswith(self.stable)
        self.stable = text
        if self.shown:
            before = self.shown[-1].words
            self.revisions += len(before) - _same(before, words)
        self.shown.append(_Shown(self.clock(), hearing.confirmed_at, words, settled))

    def job(self, step: Step, job: Job) -> None:
        self.passes.append((step, job))


@dataclass(frozen=True, slots=True)
class Stream:
    """Plays recordings to the recogniser, each as a session of its own."""

    vad: VoiceActivityDetector
    queue: RecognitionQueue
    looks: bool = True
    guesses: bool = True

    async def play(self, recording: Recording, language: str | None) -> Measured:
        """Streams one recording in the time of the running loop. ``language`` None: the recogniser finds out."""
        loop = asyncio.get_running_loop()
        lead = np.zeros(round(LEAD_S * RATE_HZ), dtype=np.float32)
        tail = np.zeros(round((ENDPOINT_S + 0.2) * RATE_HZ), dtype=np.float32)
        samples = np.concatenate([lead, recording.samples, tail])
        last_voiced = await self._last_voiced(samples)
        diary = _Diary(loop.time)
        tasks: set[asyncio.Task[Any]] = set()

        def spawn(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
            task = loop.create_task(work)
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            return task

        ingress = Ingress(self.vad.stream(), PcmFormat(), ONE_TURN)
        listening = Listening(ingress, queue=self.queue, spawn=spawn, observer=Observer(diary.words, diary.job))
        listening.language.pinned = language
        started = loop.time()
        onset, guesses = None, []
        endpoint = last_voiced + round(ENDPOINT_S * RATE_HZ) if last_voiced is not None else len(samples)
        data = float_to_pcm16(resample(samples, RATE_HZ, PCM_RATE_HZ)).tobytes()
        frame = round(FRAME_S * PCM_RATE_HZ) * 2
        for index, first in enumerate(range(0, len(data), frame)):
            await asyncio.sleep(max(0.0, started + (index + 1) * FRAME_S - loop.time()))
            for action in await ingress.feed(data[first : first + frame], loop.time()):
                if isinstance(action, SpeechStarted) and onset is None:
                    onset = action.start + ONE_TURN.prefix_ms * RATE_HZ // 1000
                elif isinstance(action, LikelyEnd) and self.guesses:
                    guesses.append(action.last_voiced)
                    listening.likely_end(action)
            if self.looks:
                listening.look()
            if ingress.position >= endpoint:
                break
        ended = listening.commit()
        heard, final_ms = await _final(listening, ended, loop)
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        diary.retractions += not heard.text.startswith(diary.stable)
        final_words = spoken(heard.words)
        right = bool(guesses) and ended is not None and guesses[-1] == ended.last_voiced
        first_shown = next((shown for shown in diary.shown if shown.words), None)
        of = {depth: [entry for entry in diary.passes if entry[0].depth is depth] for depth in Depth}
        seconds = (endpoint - len(lead)) / RATE_HZ
        partial_ms = needed_ms = None
        if first_shown is not None and onset is not None:
            partial_ms = 1000 * (first_shown.at - started - onset / RATE_HZ)
            needed_ms = (first_shown.heard_until - onset) * 1000 / RATE_HZ
        return Measured(
            name=recording.name,
            seconds=seconds,
            transcript=recording.transcript,
            final=heard.text,
            stable=diary.stable,
            retractions=diary.retractions,
            revisions=diary.revisions,
            first_partial_ms=partial_ms,
            first_partial_needed_ms=needed_ms,
            step_ms=tuple(job.compute_ms for _, job in of[Depth.PARTIAL]),
            step_at_s=tuple(step.end / RATE_HZ - LEAD_S for step, _ in of[Depth.PARTIAL]),
            settle_ms=tuple(job.compute_ms for _, job in of[Depth.SETTLE]),
            settle_at_s=tuple(step.end / RATE_HZ - LEAD_S for step, _ in of[Depth.SETTLE]),
            final_pass_ms=tuple(job.compute_ms for _, job in of[Depth.FINAL]),
            guesses=len(guesses),
            guesses_wasted=len(guesses) - right,
            final_ms=final_ms,
            words=tuple(_timings(heard.words, final_words, diary.shown, started)),
            language=listening.language.current or heard.language,
        )

    async def _last_voiced(self, samples: NDArray[np.float32]) -> int | None:
        """Where speech ends: the endpoint comes a fixed silence later, as it would in a session."""
        ingress = Ingress(self.vad.stream(), PcmFormat(), ONE_TURN)
        await ingress.feed(float_to_pcm16(resample(samples, RATE_HZ, PCM_RATE_HZ)).tobytes(), 0.0)
        return ingress.machine.last_voiced


async def _final(
    listening: Listening, ended: TurnEnded | None, loop: asyncio.AbstractEventLoop
) -> tuple[Heard, float | None]:
    asked = loop.time()
    task = listening.finish(ended) if ended is not None else None
    if task is None:
        return Heard(""), None
    heard = await task
    if isinstance(heard, Exception):
        raise heard
    return heard, 1000 * (loop.time() - asked)


def _same(before: list[str], now: list[str]) -> int:
    count = 0
    while count < min(len(before), len(now)) and before[count] == now[count]:
        count += 1
    return count


def _timings(words: tuple[Word, ...], final: list[str], shown: list[_Shown], started: float) -> list[WordTiming]:
    """When each word of the final was first shown, and when it was stable."""
    first: dict[int, _Shown] = {}
    stable: dict[int, _Shown] = {}
    for moment in shown:
        for found, text in ((first, moment.words), (stable, moment.settled)):
            matcher = difflib.SequenceMatcher(None, text, final, autojunk=False)
            for block in matcher.get_matching_blocks():
                for index in range(block.b, block.b + block.size):
                    found.setdefault(index, moment)
    timings = []
    for index, word in enumerate(words):
        end_s = word.end / RATE_HZ
        at, settled = first.get(index), stable.get(index)
        timings.append(
            WordTiming(
                end_s - LEAD_S,
                None if at is None else 1000 * (at.at - started - end_s),
                None if settled is None else 1000 * (settled.at - started - end_s),
                None if at is None else (at.heard_until - word.end) * 1000 / RATE_HZ,
            )
        )
    return timings
