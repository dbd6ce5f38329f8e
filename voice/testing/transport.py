"""A client in memory: talks to a session without a socket."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voice.config import Config
from voice.engines.bundle import Engines
from voice.session import Outbox, Session

CLIENT_RATE_HZ = 24_000
FRAME_S = 0.02


def speech_pcm24k(seconds: float, *, amplitude: float = 0.3) -> bytes:
    """A tone that :class:`~voice.testing.engines.ScriptedVad` takes for speech: PCM16, 24 kHz. Amplitude 0: silence."""
    count = round(seconds * CLIENT_RATE_HZ)
    wave = amplitude * np.sin(2 * np.pi * 220 * np.arange(count) / CLIENT_RATE_HZ)
    samples: NDArray[np.int16] = np.round(wave * 32767).astype("<i2")
    return samples.tobytes()


class MemoryClient:
    """Sends events to a session and collects what it answers, with the loop time of each."""

    def __init__(self, engines: Engines, config: Config | None = None) -> None:
        config = config or Config()
        self.outbox = Outbox(config.server.send_buffer_bytes)
        loop = asyncio.get_running_loop()
        self.session = Session(engines, config, self.outbox, clock=loop.time)
        self.events: list[dict[str, Any]] = []
        self.times: list[float] = []
        self._inbound: asyncio.Queue[str | bytes | None] = asyncio.Queue()
        self._arrived = asyncio.Condition()

    @classmethod
    @asynccontextmanager
    async def connect(cls, engines: Engines, config: Config | None = None) -> AsyncIterator[MemoryClient]:
        """A connected client; leaving the block disconnects it."""
        client = cls(engines, config)
        serving = asyncio.create_task(client.session.run(client._inbound.get))
        reading = asyncio.create_task(client._read())
        try:
            yield client
        finally:
            client._inbound.put_nowait(None)
            await serving
            client.outbox.close()
            await reading

    def send(self, event: dict[str, Any] | str | bytes) -> None:
        """Sends one message: an event as a dict, or raw text or bytes."""
        self._inbound.put_nowait(json.dumps(event) if isinstance(event, dict) else event)

    def append(self, pcm: bytes) -> None:
        """Sends audio in one append."""
        self.send({"type": "input_audio_buffer.append", "audio": base64.b64encode(pcm).decode()})

    async def speak(self, pcm: bytes) -> None:
        """Sends PCM16 audio at 24 kHz as a microphone would: 20 ms frames in real (loop) time."""
        step = int(FRAME_S * CLIENT_RATE_HZ) * 2
        for start in range(0, len(pcm), step):
            await asyncio.sleep(FRAME_S)
            self.append(pcm[start : start + step])

    async def wait_for(self, event_type: str, *, count: int = 1, timeout_s: float = 60.0) -> dict[str, Any]:
        """The ``count``-th event of a type, once it has come."""
        async with asyncio.timeout(timeout_s), self._arrived:
            await self._arrived.wait_for(lambda: len(self.of(event_type)) >= count)
        return self.of(event_type)[count - 1]

    def of(self, event_type: str) -> list[dict[str, Any]]:
        """All events of one type so far."""
        return [event for event in self.events if event["type"] == event_type]

    @property
    def types(self) -> list[str]:
        """The types of all events so far, in order."""
        return [event["type"] for event in self.events]

    def reply_audio(self) -> bytes:
        """All reply audio so far."""
        return b"".join(base64.b64decode(event["delta"]) for event in self.of("response.output_audio.delta"))

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        while (text := await self.outbox.take()) is not None:
            self.events.append(json.loads(text))
            self.times.append(loop.time())
            async with self._arrived:
                self._arrived.notify_all()
