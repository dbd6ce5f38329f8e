"""Changing the sample rate, of a whole recording or of a stream that arrives in chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

QUALITY = "HQ"
"""soxr's name for a filter good to 20 bits. A stream at this quality lags its input by 10-40 ms, depending on the
ratio (24 -> 16 kHz: 25 ms); "LQ" (16 bits, earlier roll-off) lags 1-33 ms (24 -> 16 kHz: 14 ms)."""

_NOTHING = np.zeros(0, dtype=np.float32)


class StreamResampler:
    """Resamples one stream. How the stream is cut into chunks does not change the samples that come out.

    The filter holds back a few milliseconds, so ``process`` may return nothing or more than the chunk's share;
    ``flush`` returns the rest and makes the resampler ready for the next stream.
    """

    __slots__ = ("_stream", "source_hz", "target_hz")

    def __init__(self, source_hz: int, target_hz: int, *, quality: str = QUALITY) -> None:
        """Raises ValueError when a rate is not positive."""
        if source_hz <= 0 or target_hz <= 0:
            raise ValueError(f"sample rates must be positive, not {source_hz} and {target_hz}")
        self.source_hz = source_hz
        self.target_hz = target_hz
        self._stream: Any = None
        if source_hz != target_hz:
            self._stream = soxr.ResampleStream(source_hz, target_hz, 1, dtype="float32", quality=quality)

    def process(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Takes the next chunk (any length) at ``source_hz``; returns what is ready at ``target_hz``."""
        samples = np.ascontiguousarray(samples, dtype=np.float32)
        if self._stream is None:
            return samples
        if samples.size == 0:
            return _NOTHING
        return np.asarray(self._stream.resample_chunk(samples), dtype=np.float32)

    def flush(self) -> NDArray[np.float32]:
        """Ends the stream: the samples that the filter still held."""
        if self._stream is None:
            return _NOTHING
        rest = np.asarray(self._stream.resample_chunk(_NOTHING, last=True), dtype=np.float32)
        self._stream.clear()
        return rest


def resample(samples: NDArray[np.float32], source_hz: int, target_hz: int) -> NDArray[np.float32]:
    """A whole recording at another rate, without delay: sample 0 stays sample 0."""
    samples = np.ascontiguousarray(samples, dtype=np.float32)
    if source_hz <= 0 or target_hz <= 0:
        raise ValueError(f"sample rates must be positive, not {source_hz} and {target_hz}")
    if source_hz == target_hz or samples.size == 0:
        return samples
    return np.asarray(soxr.resample(samples, source_hz, target_hz, quality=QUALITY), dtype=np.float32)
