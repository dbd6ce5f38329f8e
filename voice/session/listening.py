"""From the user's audio to words: the ingress, its turn machine, and the listener of the turn that is open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from voice.hearing.language import LanguageLock
from voice.hearing.listener import Heard, Observer, TurnListener
from voice.hearing.rescoring import Score
from voice.hearing.turn import TurnHearing
from voice.schedule.recognition import RecognitionQueue
from voice.session.ingress import Ingress
from voice.turn.machine import LikelyEnd, TurnEnded


class Listening:
    """One session's hearing. Its caller gets the turn actions and asks for the transcript when a turn has ended."""

    def __init__(
        self,
        ingress: Ingress,
        *,
        queue: RecognitionQueue,
        spawn: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]],
        score: Score | None = None,
        observer: Observer | None = None,
    ) -> None:
        """``spawn``: starts a task that the caller owns; ``score``: the LLM's opinion of readings."""
        self.ingress = ingress
        self.language = LanguageLock()
        self.vocabulary: str | None = None
        self._queue = queue
        self._spawn = spawn
        self._score = score
        self._observer = observer or Observer()
        self._turn: TurnListener | None = None

    def look(self) -> None:
        """Looks at the open turn if it is time to; call it when the actions of ``ingress.feed`` were taken."""
        machine = self.ingress.machine
        if machine.open_from is None or machine.last_voiced is None:
            self.stop()
        else:
            self._open(machine.open_from).advance(self.ingress.position, machine.last_voiced)
        self.ingress.forget()

    def likely_end(self, action: LikelyEnd) -> None:
        """The user has paused."""
        self._open(action.start).likely_end(action.end, action.last_voiced)

    def commit(self) -> TurnEnded | None:
        """The client ends the turn here; None when there is no audio to commit."""
        start = self.ingress.machine.open_from
        if start is not None:  # what comes before the speech is not shown to the recogniser
            self._open(start)
        return self.ingress.commit()

    def finish(self, ended: TurnEnded) -> asyncio.Task[Heard | Exception] | None:
        """The transcript of a turn, to come, or the reason why there is none. None: no window of it was speech.

        What is not speech is not shown to Whisper, which would make words of it.
        """
        turn, self._turn = self._turn, None
        transcript = None
        if ended.last_voiced is not None:
            turn = turn or self._new_turn(ended.start)
            transcript = turn.finish(ended.end, ended.last_voiced)
        elif turn is not None:
            turn.close()
        self.ingress.forget()
        return transcript

    def clear(self) -> None:
        """The client throws the buffered audio away."""
        self.ingress.clear()
        self.stop()

    def stop(self) -> None:
        """Nobody wants the open turn any more."""
        if self._turn is not None:
            self._turn.close()
        self._turn = None

    def _open(self, start: int) -> TurnListener:
        if self._turn is None:
            self._turn = self._new_turn(start)
        return self._turn

    def _new_turn(self, start: int) -> TurnListener:
        return TurnListener(
            start,
            self.ingress.machine.last_voiced or start,
            queue=self._queue,
            audio=self.ingress.audio,
            spawn=self._spawn,
            language=self.language,
            vocabulary=self.vocabulary,
            score=self._score,
            observer=Observer(words=self._words_known, job=self._observer.job),
        )

    def _words_known(self, hearing: TurnHearing) -> None:
        if self._turn is not None and self._turn.hearing is hearing:
            self.ingress.machine.words(hearing.changed_at, hearing.confirmed_at)
            self._observer.words(hearing)
