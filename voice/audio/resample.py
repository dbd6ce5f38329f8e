"""Changing the sample rate, of a whole recording or of a stream that arrives in chunks."""

from __future__ import annotations

import functools
import math

import numpy as np
import soxr
from numpy.typing import NDArray

ZERO_CROSSINGS = 32
"""Half-width of the stream's filter, in samples of the lower rate: it lags 2 ms at 16 kHz. soxr's own streams lag 37 ms
from 24 to 16 kHz and 42 ms from 22.05 to 24 kHz, nearly a step's whole budget."""

KAISER_BETA = 8.0
"""Stop band about 80 dB down; with 32 zero crossings the transition takes 8 % of the lower rate."""

ROLL_OFF = 0.93
"""Centre of the transition, as a share of the lower Nyquist frequency: what folds back lies above 7 kHz at 16 kHz."""


class StreamResampler:
    """Resamples one stream by a polyphase windowed-sinc filter (J. O. Smith, "Digital Audio Resampling").

    How the stream is cut into chunks does not change the samples that come out; sample 0 stays at time 0. The filter
    holds back 2 ms, so ``process`` may return nothing; ``flush`` returns the rest and makes ready for the next stream.
    """

    __slots__ = ("_bank", "_base", "_half", "_pending", "_produced", "_step", "_up", "source_hz", "target_hz")

    def __init__(self, source_hz: int, target_hz: int) -> None:
        """Raises ValueError when a rate is not positive."""
        if source_hz <= 0 or target_hz <= 0:
            raise ValueError(f"sample rates must be positive, not {source_hz} and {target_hz}")
        self.source_hz = source_hz
        self.target_hz = target_hz
        common = math.gcd(source_hz, target_hz)
        self._up = target_hz // common
        self._step = source_hz // common
        self._bank = _filter_bank(self._up, self._step)
        self._half: int = self._bank.shape[1] // 2
        self._pending: NDArray[np.float32]
        self._base: int  # stream position of the first pending sample
        self._produced: int  # samples given out so far
        self._restart()

    def process(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Takes the next chunk (any length) at ``source_hz``; returns what is ready at ``target_hz``."""
        samples = np.ascontiguousarray(samples, dtype=np.float32)
        if self.source_hz == self.target_hz:
            return samples
        self._pending = np.concatenate([self._pending, samples])
        received = self._base + len(self._pending)
        # Output n needs the inputs up to n * step // up + half.
        ready = ((received - self._half) * self._up - 1) // self._step + 1
        return self._produce(max(ready, self._produced))

    def flush(self) -> NDArray[np.float32]:
        """Ends the stream: the samples that the filter still held."""
        if self.source_hz == self.target_hz:
            return np.zeros(0, dtype=np.float32)
        received = self._base + len(self._pending)
        total = -(-received * self._up // self._step)
        self._pending = np.concatenate([self._pending, np.zeros(self._half + 1, dtype=np.float32)])
        rest = self._produce(max(total, self._produced))
        self._restart()
        return rest

    def _restart(self) -> None:
        # The first output reaches back before the first sample: silence was there.
        self._base = -(self._half - 1)
        self._pending = np.zeros(self._half - 1, dtype=np.float32)
        self._produced = 0

    def _produce(self, end: int) -> NDArray[np.float32]:
        """Outputs from where the last call ended up to (not including) number ``end``."""
        numbers = np.arange(self._produced, end)
        if len(numbers) == 0:
            return np.zeros(0, dtype=np.float32)
        positions = numbers * self._step
        firsts = positions // self._up - (self._half - 1) - self._base
        windows = np.lib.stride_tricks.sliding_window_view(self._pending, 2 * self._half)[firsts]
        made: NDArray[np.float32] = np.einsum("ij,ij->i", windows, self._bank[positions % self._up], dtype=np.float32)
        self._produced = end
        keep_from = end * self._step // self._up - (self._half - 1) - self._base
        self._pending = self._pending[keep_from:]
        self._base += keep_from
        return made


def resample(samples: NDArray[np.float32], source_hz: int, target_hz: int) -> NDArray[np.float32]:
    """A whole recording at another rate, without delay: sample 0 stays sample 0."""
    samples = np.ascontiguousarray(samples, dtype=np.float32)
    if source_hz <= 0 or target_hz <= 0:
        raise ValueError(f"sample rates must be positive, not {source_hz} and {target_hz}")
    if source_hz == target_hz or samples.size == 0:
        return samples
    return np.asarray(soxr.resample(samples, source_hz, target_hz, quality="HQ"), dtype=np.float32)


@functools.lru_cache(maxsize=16)
def _filter_bank(up: int, step: int) -> NDArray[np.float32]:
    """Filters [up, taps]: row p interpolates at fraction p / up behind the sample in the middle of its window."""
    # In units of the input's sample period; going down, the filter stretches with the output's.
    stretch = max(1.0, step / up)
    half = math.ceil(ZERO_CROSSINGS * stretch)
    cutoff = ROLL_OFF / stretch
    offsets = np.arange(2 * half) - (half - 1)
    time = offsets[None, :] - np.arange(up)[:, None] / up
    window = np.kaiser(4096, KAISER_BETA)
    shaped = np.interp(time / half, np.linspace(-1.0, 1.0, 4096), window)
    bank = cutoff * np.sinc(cutoff * time) * shaped
    # Each phase passes a constant unchanged: otherwise the gain would ripple with the phase.
    bank /= bank.sum(axis=1, keepdims=True)
    return np.asarray(bank, dtype=np.float32)
