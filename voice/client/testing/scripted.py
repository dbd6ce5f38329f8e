"""A scripted service for tests of clients: no models, no microphone, the event order of the real one.

``ScriptedSession`` is the protocol without a socket (client events in, server events out); ``ScriptedServer`` serves
it on loopback. Speech is whatever is loud; a turn ends after 200 ms of silence; each turn takes the next script.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from voice.audio import pcm16_to_float, rms_dbfs
from voice.client.realtime import WIRE_HZ
from voice.timing import METADATA_KEY

_SPEECH_DBFS = -40.0
_FRAME_SAMPLES = WIRE_HZ // 50
_END_SILENCE_SAMPLES = WIRE_HZ // 5
_DELTA_SAMPLES = WIRE_HZ // 10

LATENCY = {
    "voice_to_voice_ms": 612,
    "commit_to_audio_ms": 310,
    "asr_final_ms": 180,
    "llm_first_token_ms": 60,
    "llm_first_clause_ms": 120,
    "tts_first_audio_ms": 70,
}


def tone(seconds: float, amplitude: float = 0.3, rate_hz: int = WIRE_HZ) -> NDArray[np.int16]:
    """Something audible: PCM16 of a 300 Hz tone."""
    wave = amplitude * 32767 * np.sin(2 * np.pi * 300 * np.arange(round(seconds * rate_hz)) / rate_hz)
    return wave.astype(np.int16)


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """What the service makes of one turn."""

    transcript: str = "What is the capital of France?"
    reply: str = "The capital of France is Paris."
    audio: NDArray[np.int16] = field(default_factory=lambda: tone(0.3))
    latency: dict[str, Any] | None = field(default_factory=lambda: dict(LATENCY))
    error: str | None = None
    """Message of an ``error`` event in place of a reply."""

    status: str = "completed"
    """``cancelled``: the reply stays open until the user speaks again. ``failed``: it ends with an error."""

    silent: bool = False
    """The turn is heard and never answered."""


class ScriptedSession:
    """One session: ``receive`` takes a client event and returns the events that the server would send."""

    def __init__(self, turns: Sequence[ScriptedTurn]) -> None:
        self._turns: Iterator[ScriptedTurn] = iter(turns)
        self._numbers = itertools.count(1)
        self._samples = 0
        self._quiet = 0
        self._item: str | None = None
        self._open_response: str | None = None
        self.received: list[dict[str, Any]] = []
        """Every client event except the appends."""

        self.appends = 0

    def created(self) -> dict[str, Any]:
        """The first event of the session."""
        return self._event("session.created", session={"type": "realtime", "id": "sess_1"})

    def receive(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        if event["type"] == "input_audio_buffer.append":
            self.appends += 1
            samples = np.frombuffer(base64.b64decode(event["audio"]), dtype="<i2").astype(np.int16)
            frames = (samples[at : at + _FRAME_SAMPLES] for at in range(0, samples.size, _FRAME_SAMPLES))
            return [out for frame in frames for out in self._hear(frame)]
        self.received.append(event)
        if event["type"] == "session.update":
            return [self._event("session.updated", session=event["session"])]
        if event["type"] == "conversation.item.truncate":
            return [self._event("conversation.item.truncated", **{k: event[k] for k in event if k != "type"})]
        return []

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": kind, "event_id": f"event_{next(self._numbers)}", **fields}

    def _hear(self, samples: NDArray[np.int16]) -> list[dict[str, Any]]:
        self._samples += samples.size
        position_ms = self._samples * 1000 // WIRE_HZ
        if rms_dbfs(pcm16_to_float(samples)) > _SPEECH_DBFS:
            self._quiet = 0
            if self._item is None:
                self._item = f"item_{next(self._numbers)}"
                started = self._event(
                    "input_audio_buffer.speech_started", audio_start_ms=position_ms, item_id=self._item
                )
                return [started, *self._cancel_open()]
            return []
        self._quiet += samples.size
        if self._item is None or self._quiet < _END_SILENCE_SAMPLES:
            return []
        item, self._item = self._item, None
        return self._turn(item, position_ms, next(self._turns, ScriptedTurn()))

    def _cancel_open(self) -> list[dict[str, Any]]:
        response, self._open_response = self._open_response, None
        if response is None:
            return []
        details = {"type": "cancelled", "reason": "turn_detected"}
        return [self._event("response.done", response=_response(response, "cancelled", status_details=details))]

    def _turn(self, item: str, position_ms: int, turn: ScriptedTurn) -> list[dict[str, Any]]:
        """Order A of the protocol: server VAD, audio reply."""
        user = {"id": item, "type": "message", "role": "user", "status": "completed"}
        user["content"] = [{"type": "input_audio", "transcript": None}]  # type: ignore[assignment]
        transcription = "conversation.item.input_audio_transcription"
        events = [
            self._event("input_audio_buffer.speech_stopped", audio_end_ms=position_ms, item_id=item),
            self._event("input_audio_buffer.committed", item_id=item, previous_item_id=None),
            self._event("conversation.item.added", item=user, previous_item_id=None),
            self._event("conversation.item.done", item=user, previous_item_id=None),
        ]
        if turn.error is not None:
            error = {"type": "server_error", "code": None, "message": turn.error, "param": None, "event_id": None}
            return [*events, self._event("error", error=error)]
        events += [
            self._event(f"{transcription}.delta", item_id=item, content_index=0, delta=word)
            for word in _words(turn.transcript)
        ]
        usage = {"type": "duration", "seconds": 1.0}
        events.append(
            self._event(
                f"{transcription}.completed", item_id=item, content_index=0, transcript=turn.transcript, usage=usage
            )
        )
        return events if turn.silent else [*events, *self._reply(turn)]

    def _reply(self, turn: ScriptedTurn) -> list[dict[str, Any]]:
        response, item = f"resp_{next(self._numbers)}", f"item_{next(self._numbers)}"
        assistant = {"id": item, "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        ids = {"response_id": response, "item_id": item, "output_index": 0, "content_index": 0}
        part = {"type": "audio", "transcript": ""}
        events = [
            self._event("response.created", response=_response(response, "in_progress")),
            self._event("response.output_item.added", response_id=response, output_index=0, item=assistant),
            self._event("conversation.item.added", item=assistant, previous_item_id=None),
            self._event("response.content_part.added", **ids, part=part),
        ]
        events += [
            self._event("response.output_audio_transcript.delta", **ids, delta=word) for word in _words(turn.reply)
        ]
        for start in range(0, turn.audio.size, _DELTA_SAMPLES):
            chunk = turn.audio[start : start + _DELTA_SAMPLES].astype("<i2").tobytes()
            events.append(self._event("response.output_audio.delta", **ids, delta=base64.b64encode(chunk).decode()))
        if turn.status == "cancelled":
            self._open_response = response
            return events
        events += [
            self._event("response.output_audio.done", **ids),
            self._event("response.output_audio_transcript.done", **ids, transcript=turn.reply),
            self._event("response.content_part.done", **ids, part={"type": "audio", "transcript": turn.reply}),
            self._event("response.output_item.done", response_id=response, output_index=0, item=assistant),
            self._event("conversation.item.done", item=assistant, previous_item_id=None),
        ]
        details = {"type": "failed", "error": {"type": "server_error", "message": "the LLM stopped"}}
        final = _response(response, turn.status, status_details=details if turn.status == "failed" else None)
        if turn.latency is not None:
            final["metadata"] = {METADATA_KEY: json.dumps(turn.latency, separators=(",", ":"))}
        return [*events, self._event("response.done", response=final)]


def _response(identity: str, status: str, **fields: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"status_details": None, "output": [], "usage": None, "metadata": None}
    return {"id": identity, "object": "realtime.response", "status": status, **empty, **fields}


def _words(text: str) -> list[str]:
    return [word if number == 0 else f" {word}" for number, word in enumerate(text.split())]


class ScriptedServer:
    """Serves ``ScriptedSession`` on a free loopback port.

    ``refuse`` answers every handshake with that status and body; ``drop_after`` closes each connection after so many
    appends (code 1011).
    """

    def __init__(
        self,
        turns: Sequence[ScriptedTurn] = (),
        *,
        refuse: tuple[int, str] | None = None,
        drop_after: int | None = None,
    ) -> None:
        self._turns = turns
        self._refuse = refuse
        self._drop_after = drop_after
        self.sessions: list[ScriptedSession] = []
        self.headers: list[Headers] = []
        self.url = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ScriptedServer]:
        """Serves while the block runs; ``url`` is the address."""
        async with serve(self._handle, "127.0.0.1", 0, process_request=self._process, max_size=None) as server:
            self.url = f"ws://127.0.0.1:{_port(server)}"
            yield self

    @contextmanager
    def in_thread(self) -> Iterator[ScriptedServer]:
        """Serves from a thread while the block runs: for commands that run an event loop of their own."""
        loop = asyncio.new_event_loop()
        ready, leave = threading.Event(), asyncio.Event()

        async def serve_until_told() -> None:
            async with self.running():
                ready.set()
                await leave.wait()

        thread = threading.Thread(target=loop.run_until_complete, args=(serve_until_told(),))
        thread.start()
        try:
            if not ready.wait(10):
                raise RuntimeError("the scripted server did not start")
            yield self
        finally:
            loop.call_soon_threadsafe(leave.set)
            thread.join(10)
            loop.close()

    def _process(self, connection: ServerConnection, request: Request) -> Response | None:
        self.headers.append(request.headers)
        if self._refuse is None:
            return None
        status, body = self._refuse
        return connection.respond(HTTPStatus(status), body)

    async def _handle(self, connection: ServerConnection) -> None:
        session = ScriptedSession(self._turns)
        self.sessions.append(session)
        try:
            await connection.send(json.dumps(session.created()))
            async for message in connection:
                for event in session.receive(json.loads(message)):
                    await connection.send(json.dumps(event))
                if self._drop_after is not None and session.appends >= self._drop_after:
                    await connection.close(1011, "scripted crash")
        except ConnectionClosed:
            return


def _port(server: Server) -> int:
    return int(next(iter(server.sockets)).getsockname()[1])
