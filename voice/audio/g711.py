"""G.711: the 8 kHz telephone codecs, mu-law and A-law, as table look-ups (``audioop`` is gone from Python 3.13).

The tables follow ITU-T G.711 with linear values left-aligned to 16 bits, as everybody does: mu-law spans +-32124 and
A-law +-32256. Encoding uses the standard's decision values and treats both signs alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

G711_HZ = 8000
"""The only rate that G.711 has."""

_BIAS = 33
"""Added by mu-law to the 14-bit magnitude so that every segment starts at a power of two."""


def _ulaw_decode_table() -> NDArray[np.int16]:
    code = ~np.arange(256) & 0xFF
    exponent = (code >> 4) & 0x07
    magnitude = ((((code & 0x0F) << 1) + _BIAS) << exponent) - _BIAS
    return (np.where(code & 0x80, -magnitude, magnitude) << 2).astype(np.int16)


def _alaw_decode_table() -> NDArray[np.int16]:
    code = np.arange(256) ^ 0x55
    exponent = (code >> 4) & 0x07
    mantissa = ((code & 0x0F) << 4) + 8
    magnitude = np.where(exponent == 0, mantissa, (mantissa + 0x100) << np.maximum(exponent - 1, 0))
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int16)


def _magnitudes() -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For every int16 in the order of its bits: its magnitude (one's complement of negatives) and its sign."""
    samples = np.arange(65536, dtype=np.uint16).view(np.int16).astype(np.int64)
    negative = samples < 0
    return np.where(negative, ~samples, samples), negative


def _ulaw_encode_table() -> NDArray[np.uint8]:
    magnitude, negative = _magnitudes()
    biased = np.minimum((magnitude >> 2) + _BIAS, 0x1FFF)
    segment = np.floor(np.log2(biased)).astype(np.int64) - 5
    code = (segment << 4) | ((biased >> (segment + 1)) & 0x0F)
    table: NDArray[np.uint8] = (~(code | np.where(negative, 0x80, 0)) & 0xFF).astype(np.uint8)
    return table


def _alaw_encode_table() -> NDArray[np.uint8]:
    magnitude, negative = _magnitudes()
    reduced = magnitude >> 4
    segment = np.maximum(np.floor(np.log2(np.maximum(reduced, 1))).astype(np.int64) - 3, 0)
    mantissa = (reduced >> np.maximum(segment - 1, 0)) & 0x0F
    table: NDArray[np.uint8] = (((segment << 4) | mantissa | np.where(negative, 0, 0x80)) ^ 0x55).astype(np.uint8)
    return table


_ULAW_DECODE = _ulaw_decode_table()
_ALAW_DECODE = _alaw_decode_table()
_ULAW_ENCODE = _ulaw_encode_table()
_ALAW_ENCODE = _alaw_encode_table()


def ulaw_decode(data: bytes | bytearray | memoryview) -> NDArray[np.int16]:
    """Mu-law bytes as samples; 0xFF (and 0x7F, the other zero) is 0."""
    return _ULAW_DECODE[np.frombuffer(data, dtype=np.uint8)]


def alaw_decode(data: bytes | bytearray | memoryview) -> NDArray[np.int16]:
    """A-law bytes as samples. A-law has no zero: its smallest values are +-8."""
    return _ALAW_DECODE[np.frombuffer(data, dtype=np.uint8)]


def ulaw_encode(samples: NDArray[np.int16]) -> bytes:
    """Samples as mu-law, one byte each."""
    return _ULAW_ENCODE[np.asarray(samples, dtype=np.int16).view(np.uint16)].tobytes()


def alaw_encode(samples: NDArray[np.int16]) -> bytes:
    """Samples as A-law, one byte each."""
    return _ALAW_ENCODE[np.asarray(samples, dtype=np.int16).view(np.uint16)].tobytes()
