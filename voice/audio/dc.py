"""Takes the constant part out of a microphone's signal: detectors and recognisers expect sound around zero."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class DcBlocker:
    """A stream less its own mean over the last half second.

    The result does not depend on how the stream was cut, nothing is delayed, and the first sample does not click (it is
    its own mean). Sound above 20 Hz is left within a dB.
    """

    def __init__(self, rate_hz: int) -> None:
        self._span = rate_hz // 2
        self._history = np.zeros(0, dtype=np.float32)
        self._sum = 0.0

    def process(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """The next samples, as many as were given."""
        if len(samples) == 0:
            return samples
        joined = np.concatenate([self._history, samples])
        held = len(self._history)
        # Each step adds a sample and, once the span is full, takes the one that leaves it.
        change = samples.astype(np.float64)
        leaving = joined[: max(0, len(joined) - self._span)]
        change[len(change) - len(leaving) :] -= leaving
        sums = np.cumsum(np.concatenate([[self._sum], change]))[1:]
        counts = np.minimum(np.arange(held + 1, held + len(samples) + 1), self._span)
        self._sum = float(sums[-1])
        self._history = joined[-self._span :]
        level: NDArray[np.float32] = (sums / counts).astype(np.float32)
        return samples - level
