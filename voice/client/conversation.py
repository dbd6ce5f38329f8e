"""Asks recorded questions as a microphone would: frames in real time, silence after the words, turn after turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from voice.audio import float_to_pcm16, last_audible, read_wav, resample
from voice.client.realtime import WIRE_HZ, audio_session, error_message
from voice.client.recorder import TurnRecorder, TurnReport
from voice.errors import AudioFileError, ServiceError

FRAME_MS = 20
FRAME_SAMPLES = WIRE_HZ * FRAME_MS // 1000

PAUSE_S = 0.3
"""Between the end of a reply and the next question: about as fast as people answer each other."""

NO_SPEECH_S = 10.0
"""A question in which the server hears nothing for this long after its end is given up."""

NO_REPLY_S = 30.0
"""A server that sends nothing about the turn for this long is given up."""

_CONFIGURE_S = 10.0


@dataclass(frozen=True, slots=True)
class Question:
    """A recorded question, ready to send: PCM16 at 24 kHz."""

    name: str
    samples: NDArray[np.int16]
    last_voiced: int
    """Index of the last voiced sample."""

    @classmethod
    def from_wav(cls, path: str, last_voiced_s: float | None = None) -> Question:
        """Reads a WAV file of any kind. ``last_voiced_s`` overrides what the energy of the recording says.

        Raises AudioFileError when the file cannot be read or is silent.
        """
        samples, rate_hz = read_wav(path)
        return cls.from_samples(path, samples, rate_hz, last_voiced_s)

    @classmethod
    def from_samples(
        cls, name: str, samples: NDArray[np.float32], rate_hz: int, last_voiced_s: float | None = None
    ) -> Question:
        """A question from float samples at any rate. Raises AudioFileError when they are silent."""
        wire = resample(samples, rate_hz, WIRE_HZ)
        last = last_audible(wire, WIRE_HZ) if last_voiced_s is None else round(last_voiced_s * WIRE_HZ)
        if last is None or wire.size == 0:
            raise AudioFileError(f"{name} is silent: record it again, louder")
        return cls(name, float_to_pcm16(wire), max(0, min(last, wire.size - 1)))


class Client(Protocol):
    """What a conversation needs of a connection; ``RealtimeClient`` is one."""

    async def configure(self, session: dict[str, Any]) -> None: ...

    async def send_audio(self, samples: NDArray[np.int16]) -> None: ...

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]: ...


class Conversation:
    """Holds one conversation over one connection.

    Frames of 20 ms leave at absolute deadlines, so lateness does not add up. After the last word silence keeps
    flowing: the server decides where the turn ends. The next question begins when a listener would have heard the
    reply out, plus a short pause.
    """

    def __init__(
        self,
        client: Client,
        *,
        on_event: Callable[[dict[str, Any]], None] | None = None,
        on_turn: Callable[[TurnReport], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        no_speech_s: float = NO_SPEECH_S,
        no_reply_s: float = NO_REPLY_S,
    ) -> None:
        """``on_event`` sees every server event as it arrives, ``on_turn`` every finished turn."""
        self._client = client
        self._on_event = on_event
        self._on_turn = on_turn
        self._clock = clock
        self._sleep = sleep
        self._no_speech_s = no_speech_s
        self._no_reply_s = no_reply_s
        self._configured = asyncio.Event()
        self._recorder: TurnRecorder | None = None
        self._began_at_s = 0.0
        self._frames = 0

    async def run(self, questions: Sequence[Question], session: dict[str, Any] | None = None) -> list[TurnReport]:
        """Asks the questions one after another and returns what came of each.

        Raises ServiceError when the server reports an error, drops the connection or leaves a question unanswered.
        """
        await self._client.configure(session or audio_session())
        listener = asyncio.create_task(self._listen(), name="listen")
        asker = asyncio.create_task(self._ask_all(questions), name="ask")
        try:
            await asyncio.wait((listener, asker), return_when=asyncio.FIRST_COMPLETED)
            if listener.done():  # it only ever ends with the connection
                listener.result()
                raise ServiceError("the connection was closed in the middle of the conversation")
            return asker.result()
        finally:
            for task in (listener, asker):
                task.cancel()
            await asyncio.gather(listener, asker, return_exceptions=True)

    async def _listen(self) -> None:
        async for event in self._client:
            now_s = self._clock()
            if event.get("type") == "session.updated":
                self._configured.set()
            if self._recorder is not None:
                self._recorder.on_event(event, now_s)
            elif event.get("type") == "error":
                raise ServiceError(f"the server refused the session: {error_message(event)}")
            if self._on_event is not None:
                self._on_event(event)

    async def _ask_all(self, questions: Sequence[Question]) -> list[TurnReport]:
        try:
            await asyncio.wait_for(self._configured.wait(), _CONFIGURE_S)
        except TimeoutError:
            raise ServiceError(f"the server did not accept the session within {_CONFIGURE_S:g} s") from None
        self._began_at_s = self._clock()
        reports = []
        for number, question in enumerate(questions):
            report = await self._ask(question)
            reports.append(report)
            if self._on_turn is not None:
                self._on_turn(report)
            if number + 1 < len(questions):
                await self._hear_out()
        return reports

    async def _ask(self, question: Question) -> TurnReport:
        """Says the question, then silence until its reply is complete."""
        offset_s = self._frames * FRAME_MS / 1000.0
        earlier = self._recorder.items if self._recorder else frozenset()
        recorder = TurnRecorder(question.name, offset_s + question.last_voiced / WIRE_HZ, earlier)
        self._recorder = recorder
        for start in range(0, question.samples.size, FRAME_SAMPLES):
            frame = question.samples[start : start + FRAME_SAMPLES]
            if frame.size < FRAME_SAMPLES:
                frame = np.pad(frame, (0, FRAME_SAMPLES - frame.size))
            sent_at_s = await self._send(frame)
            if start <= question.last_voiced < start + FRAME_SAMPLES:
                recorder.last_voiced_sent(sent_at_s + (question.last_voiced - start) / WIRE_HZ)
        recorder.question_sent(self._clock())
        while not recorder.finished(self._clock()):
            recorder.check_patience(self._clock(), self._no_speech_s, self._no_reply_s)
            await self._send_silence()
        return recorder.report()

    async def _hear_out(self) -> None:
        """Silence until the listener has heard the reply and has taken a breath."""
        ends_at_s = self._recorder.plays_until_s if self._recorder else None
        until_s = max(ends_at_s or 0.0, self._clock()) + PAUSE_S
        while self._clock() < until_s:
            await self._send_silence()

    async def _send_silence(self) -> None:
        await self._send(np.zeros(FRAME_SAMPLES, dtype=np.int16))

    async def _send(self, frame: NDArray[np.int16]) -> float:
        """Sends one frame when its time has come; returns that time."""
        deadline_s = self._began_at_s + self._frames * FRAME_MS / 1000.0
        await self._sleep(max(0.0, deadline_s - self._clock()))
        sent_at_s = self._clock()
        await self._client.send_audio(frame)
        self._frames += 1
        return sent_at_s
