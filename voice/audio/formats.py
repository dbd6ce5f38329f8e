"""Between bytes on the wire, 16-bit samples and the floats that filters and models take."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

INT16_SCALE = 32768.0
"""One for both directions, so that int16 -> float -> int16 gives back every sample exactly."""


def pcm16_to_float(data: bytes | bytearray | memoryview | NDArray[np.int16]) -> NDArray[np.float32]:
    """PCM16 (little-endian bytes, or samples) as float32 in [-1, 1).

    Raises ValueError for an odd number of bytes: half a sample belongs to the next chunk (see ``Pcm16Decoder``).
    """
    samples = data if isinstance(data, np.ndarray) else np.frombuffer(data, dtype="<i2")
    return samples.astype(np.float32) / np.float32(INT16_SCALE)


def float_to_pcm16(samples: NDArray[np.floating]) -> NDArray[np.int16]:
    """Floats as 16-bit samples. What is out of range clips (it never wraps); NaN and infinities become 0."""
    samples = np.asarray(samples)
    finite = np.where(np.isfinite(samples), np.clip(samples, -1.0, 1.0), 0.0)
    clipped: NDArray[np.int16] = np.clip(np.rint(finite * INT16_SCALE), -32768.0, 32767.0).astype(np.int16)
    return clipped


class Pcm16Decoder:
    """Puts a PCM16 byte stream back together: chunks may end in the middle of a sample.

    The samples that come out do not depend on where the stream was cut.
    """

    __slots__ = ("_carry",)

    def __init__(self) -> None:
        self._carry = b""

    @property
    def dangling(self) -> bool:
        """Half a sample is waiting for its other byte."""
        return bool(self._carry)

    def feed(self, data: bytes | bytearray | memoryview) -> NDArray[np.int16]:
        """The whole samples that are complete with this chunk; possibly none."""
        joined = self._carry + bytes(data) if self._carry else bytes(data)
        whole = len(joined) & ~1
        self._carry = joined[whole:]
        return np.frombuffer(joined, dtype="<i2", count=whole // 2).astype(np.int16)

    def reset(self) -> bool:
        """Starts a new stream and says whether half a sample was dropped."""
        dropped = self.dangling
        self._carry = b""
        return dropped
