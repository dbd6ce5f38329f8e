"""Microphone and speaker through PortAudio. Audio callbacks copy and return: they never wait, convert or allocate much.

Both ends speak int16 at 24 kHz to the rest of the program. A device that cannot do 24 kHz runs at its own rate, and the
resampling happens outside of the callback.
"""

from __future__ import annotations

import importlib
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voice.audio import StreamResampler, float_to_pcm16, pcm16_to_float, rms_dbfs
from voice.client.realtime import WIRE_HZ, one_line
from voice.errors import ResourceError

BLOCK_MS = 20
"""One callback's worth of sound."""

INPUT_BACKLOG_MS = 500
"""Input that waits for a slow connection; older sound is dropped, so that a stall never turns into lasting lag."""

OUTPUT_BACKLOG_S = 120.0
"""Most reply audio that waits to be played: the server may send a whole reply at once."""

LEFTOVER_MS = 300
"""Of an earlier reply, this much may still be played when the next one begins."""


def load_sounddevice() -> Any:
    """The ``sounddevice`` module. Raises ResourceError, naming the package to install, when something is missing."""
    try:
        return importlib.import_module("sounddevice")
    except ImportError:
        raise ResourceError("talking needs the Python package sounddevice: pip install 'voice[client]'") from None
    except OSError:
        package = "`brew install portaudio`" if sys.platform == "darwin" else "`sudo apt install libportaudio2`"
        raise ResourceError(f"talking needs the PortAudio library: {package} (or your system's package)") from None


def find_device(sd: Any, wanted: str | None, kind: str) -> tuple[int, dict[str, Any]]:
    """Index and description of a device; ``wanted`` is an index, a part of a name, or None for the default.

    ``kind`` is "input" or "output". Raises ResourceError when there is no such device.
    """
    word = "microphone" if kind == "input" else "speaker"
    hint = "see `voice talk --list-devices`"
    try:
        choice = int(wanted) if wanted is not None and wanted.isdigit() else wanted
        info = dict(sd.query_devices(choice, kind))
    except (ValueError, sd.PortAudioError) as error:
        if wanted is None:
            raise ResourceError(f"no {word} was found: connect one, or choose a device; {hint}") from None
        raise ResourceError(f"no {word} matches {wanted!r}: {one_line(str(error))}; {hint}") from None
    if int(info.get(f"max_{kind}_channels", 0)) < 1:
        raise ResourceError(f"{info.get('name', wanted)!r} is no {word}; {hint}")
    return int(info.get("index", -1)), info


def _open(make: Callable[..., Any], sd: Any, info: dict[str, Any], kind: str, callback: Any) -> tuple[Any, int, int]:
    """Opens a stream at the wire's rate, or else at the device's own; returns it with its rate and channel count."""
    own_hz = round(float(info.get("default_samplerate") or 48000))
    channels = min(2, int(info[f"max_{kind}_channels"]))
    attempts = dict.fromkeys([(WIRE_HZ, 1), (own_hz, 1), (own_hz, channels), (48000, channels), (44100, channels)])
    problem: Exception | None = None
    for rate_hz, channel_count in attempts:
        try:
            stream = make(
                device=info.get("index"),
                samplerate=rate_hz,
                channels=channel_count,
                dtype="float32",
                blocksize=rate_hz * BLOCK_MS // 1000,
                latency="low",
                callback=callback,
            )
            stream.start()
        except (sd.PortAudioError, ValueError) as error:  # -9997 invalid sample rate, -9998 invalid channel count, ...
            problem = error
        else:
            return stream, rate_hz, channel_count
    word = "microphone" if kind == "input" else "speaker"
    reason = one_line(str(problem))
    raise ResourceError(f"the {word} {info.get('name')!r} could not be opened: {reason}; is another program using it?")


class Microphone:
    """Blocks of sound from an input device. ``wake`` is called from the audio thread whenever there is more."""

    def __init__(self, sd: Any, device: str | None = None, wake: Callable[[], None] = lambda: None) -> None:
        """Opens and starts the device. Raises ResourceError, one line, when that is impossible."""
        self._blocks: deque[NDArray[np.float32]] = deque(maxlen=max(1, INPUT_BACKLOG_MS // BLOCK_MS))
        self._wake = wake
        self.dropped_blocks = 0
        """Blocks thrown away because nobody fetched them in time."""

        self.overflows = 0
        """Times that PortAudio itself lost input."""

        self.level_dbfs = -120.0
        """Loudness of the sound last fetched."""

        _, info = find_device(sd, device, "input")
        self.name = str(info.get("name"))
        self._stream, self.rate_hz, _ = _open(sd.InputStream, sd, info, "input", self._callback)
        self._resampler = StreamResampler(self.rate_hz, WIRE_HZ)

    def _callback(self, indata: NDArray[np.float32], frames: int, time: Any, status: Any) -> None:
        if status and getattr(status, "input_overflow", False):
            self.overflows += 1
        if len(self._blocks) == self._blocks.maxlen:
            self.dropped_blocks += 1  # the deque lets go of its oldest block
        self._blocks.append(indata.mean(axis=1) if indata.shape[1] > 1 else indata[:, 0].copy())
        self._wake()

    def read(self) -> NDArray[np.int16]:
        """All sound since the last call, oldest first, at 24 kHz; possibly none."""
        blocks = []
        while self._blocks:
            blocks.append(self._blocks.popleft())
        if not blocks:
            return np.zeros(0, dtype=np.int16)
        samples = np.concatenate(blocks)
        self.level_dbfs = rms_dbfs(samples)
        return float_to_pcm16(self._resampler.process(samples))

    def close(self) -> None:
        self._stream.abort()
        self._stream.close()


class Speaker:
    """Plays replies on an output device, and stops at once when told to."""

    def __init__(self, sd: Any, device: str | None = None) -> None:
        """Opens and starts the device. Raises ResourceError, one line, when that is impossible."""
        self._blocks: deque[NDArray[np.float32]] = deque()
        self._current = np.zeros(0, dtype=np.float32)
        self._flushes = 0
        self._flushes_seen = 0
        self._fetched = 0
        self._reply_start = 0
        self.dropped_samples = 0
        """Samples (at the device's rate) that did not fit the backlog."""

        self.underflows = 0
        """Times that PortAudio ran dry because the callback was late."""

        _, info = find_device(sd, device, "output")
        self.name = str(info.get("name"))
        self._stream, self.rate_hz, _ = _open(sd.OutputStream, sd, info, "output", self._callback)
        self._resampler = StreamResampler(WIRE_HZ, self.rate_hz)

    def _callback(self, outdata: NDArray[np.float32], frames: int, time: Any, status: Any) -> None:
        if status and getattr(status, "output_underflow", False):
            self.underflows += 1
        if self._flushes_seen != self._flushes:
            self._flushes_seen = self._flushes
            self._current = self._current[:0]
        filled = 0
        while filled < frames:
            if self._current.size == 0:
                try:
                    self._current = self._blocks.popleft()
                except IndexError:
                    break
            part = self._current[: frames - filled]
            outdata[filled : filled + part.size] = part[:, np.newaxis]
            self._current = self._current[part.size :]
            filled += part.size
        outdata[filled:] = 0.0
        self._fetched += filled

    @property
    def backlog_ms(self) -> float:
        """Sound that waits to be played."""
        waiting = self._current.size + sum(block.size for block in tuple(self._blocks))
        return waiting * 1000.0 / self.rate_hz

    @property
    def played_ms(self) -> int:
        """How much of the current reply has been handed to the device."""
        return max(0, round((self._fetched - self._reply_start) * 1000.0 / self.rate_hz))

    def begin_reply(self) -> None:
        """The audio that follows is a new reply; of the one before, at most ``LEFTOVER_MS`` are still played."""
        self._trim(LEFTOVER_MS, newest=True)
        self._resampler.flush()
        self._reply_start = self._fetched + round(self.backlog_ms * self.rate_hz / 1000.0)

    def play(self, samples: NDArray[np.int16]) -> None:
        """Queues audio of the current reply (24 kHz)."""
        self._push(self._resampler.process(pcm16_to_float(samples)))

    def end_reply(self) -> None:
        """No more audio of this reply comes: the resampler's last milliseconds are queued too."""
        self._push(self._resampler.flush())

    def _push(self, samples: NDArray[np.float32]) -> None:
        block = self.rate_hz * BLOCK_MS // 1000
        self._blocks.extend(samples[start : start + block] for start in range(0, samples.size, block))
        self._trim(OUTPUT_BACKLOG_S * 1000.0)

    def _trim(self, limit_ms: float, *, newest: bool = False) -> None:
        """Drops and counts what is queued beyond the limit: the oldest, or the newest so that what plays plays on."""
        while self.backlog_ms > limit_ms:
            try:
                dropped = self._blocks.pop() if newest else self._blocks.popleft()
            except IndexError:  # the callback was faster, or only the block being played is left
                return
            self.dropped_samples += dropped.size

    def flush(self) -> None:
        """Barge-in: nothing that is queued is played any more."""
        self._blocks.clear()
        self._flushes += 1
        self._resampler.flush()

    def close(self) -> None:
        self._stream.abort()
        self._stream.close()
