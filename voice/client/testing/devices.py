"""A sounddevice module without PortAudio: devices are dictionaries, and tests call the callbacks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class PortAudioError(Exception):
    pass


class Status:
    """Like sounddevice.CallbackFlags."""

    def __init__(self, overflow: bool = False, underflow: bool = False) -> None:
        self.input_overflow = overflow
        self.output_underflow = underflow

    def __bool__(self) -> bool:
        return self.input_overflow or self.output_underflow


class Stream:
    def __init__(self, sd: FakeSoundDevice, kind: str, **options: Any) -> None:
        rate_hz, channels = options["samplerate"], options["channels"]
        sd.attempts.append((kind, rate_hz, channels))
        if sd.busy:
            raise PortAudioError("Error opening stream: Device unavailable [PaErrorCode -9985]")
        if rate_hz not in sd.rates:
            raise PortAudioError("Error opening stream: Invalid sample rate [PaErrorCode -9997]")
        if channels < sd.min_channels:
            raise PortAudioError("Error opening stream: Invalid number of channels [PaErrorCode -9998]")
        self.options = options
        self.callback = options["callback"]
        self.channels = channels
        self.started = False
        self.closed = False
        sd.streams[kind] = self

    def start(self) -> None:
        self.started = True

    def abort(self) -> None:
        self.started = False

    def close(self) -> None:
        self.closed = True

    def record(self, samples: NDArray[np.float32], status: Status | None = None) -> None:
        """As if the device had heard this."""
        block = np.repeat(samples.astype(np.float32)[:, np.newaxis], self.channels, axis=1)
        self.callback(block, len(samples), None, status or Status())
        block[:] = 99.0  # PortAudio reuses the buffer: what was kept must have been copied

    def fetch(self, frames: int, status: Status | None = None) -> NDArray[np.float32]:
        """As if the device wanted so much sound; the first channel of what it got."""
        block = np.full((frames, self.channels), 99.0, dtype=np.float32)
        self.callback(block, frames, None, status or Status())
        assert np.all(block == block[:, :1])
        return block[:, 0].copy()


class FakeSoundDevice:
    PortAudioError = PortAudioError

    def __init__(self, rates: tuple[int, ...] = (24000,), own_hz: float = 48000.0, min_channels: int = 1) -> None:
        self.rates = rates
        self.own_hz = own_hz
        self.min_channels = min_channels
        self.busy = False
        self.missing: set[str] = set()
        self.attempts: list[tuple[str, int, int]] = []
        self.streams: dict[str, Stream] = {}

    def query_devices(self, device: Any = None, kind: str | None = None) -> Any:
        if kind is None:
            return "0 Fake device (2 in, 2 out)"
        if kind in self.missing:
            raise PortAudioError("Error querying device -1")
        if device not in (None, 0, "Fake"):
            raise ValueError(f"No {kind} device matching {device!r}")
        channels = {"max_input_channels": 2, "max_output_channels": 2}
        return {"index": 0, "name": f"Fake {kind}", "default_samplerate": self.own_hz, **channels}

    def InputStream(self, **options: Any) -> Stream:
        return Stream(self, "input", **options)

    def OutputStream(self, **options: Any) -> Stream:
        return Stream(self, "output", **options)
