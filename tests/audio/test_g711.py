from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from voice.audio import alaw_decode, alaw_encode, ulaw_decode, ulaw_encode

Decode = Callable[[bytes], NDArray[np.int16]]
Encode = Callable[[NDArray[np.int16]], bytes]

EVERY_CODE = bytes(range(256))
EVERY_SAMPLE = np.arange(-32768, 32768, dtype=np.int32).astype(np.int16)


def test_ulaw_silence_is_zeros() -> None:
    """Case 9."""
    assert ulaw_decode(b"\xff" * 160).tolist() == [0] * 160


@pytest.mark.parametrize(
    ("code", "sample"),
    [
        (0x00, -32124), (0x0F, -16764), (0x10, -15996), (0x70, -120), (0x7E, -8), (0x7F, 0),
        (0x80, 32124), (0x8F, 16764), (0xF0, 120), (0xFE, 8), (0xFF, 0),
    ],
)  # fmt: skip
def test_ulaw_known_values(code: int, sample: int) -> None:
    assert ulaw_decode(bytes([code])).tolist() == [sample]


@pytest.mark.parametrize(
    ("code", "sample"),
    [(0x55, -8), (0xD5, 8), (0x54, -24), (0xD4, 24), (0x2A, -32256), (0xAA, 32256), (0x00, -5504), (0x80, 5504)],
)
def test_alaw_known_values(code: int, sample: int) -> None:
    assert alaw_decode(bytes([code])).tolist() == [sample]


def test_encoding_known_values() -> None:
    samples = np.array([0, 32767, -32768, 8, -8, 1000, -1000], dtype=np.int16)
    assert ulaw_encode(samples) == bytes([0xFF, 0x80, 0x00, 0xFE, 0x7E, 0xCE, 0x4E])
    assert alaw_encode(samples) == bytes([0xD5, 0xAA, 0x2A, 0xD5, 0x55, 0xFA, 0x7A])


@pytest.mark.parametrize(("decode", "encode"), [(ulaw_decode, ulaw_encode), (alaw_decode, alaw_encode)])
def test_every_sample_gets_its_interval(decode: Decode, encode: Encode) -> None:
    """A code word's value is the middle of its interval: no further away than half the wider gap beside it."""
    table = np.sort(decode(EVERY_CODE).astype(np.int64))
    heard = decode(encode(EVERY_SAMPLE)).astype(np.int64)
    gaps = np.diff(table, prepend=table[0] - 1024, append=table[-1] + 1024)
    at = np.searchsorted(table, heard)
    half = np.maximum(gaps[at], gaps[at + 1]) // 2
    clipped = np.abs(EVERY_SAMPLE.astype(np.int64)) > table[-1]
    assert np.all((np.abs(heard - EVERY_SAMPLE) <= half) | clipped)
    assert np.all(np.diff(heard) >= 0)


@pytest.mark.parametrize("encode", [ulaw_encode, alaw_encode])
def test_both_signs_are_treated_alike(encode: Encode) -> None:
    samples = np.arange(32768, dtype=np.int32).astype(np.int16)
    assert bytes(code ^ 0x80 for code in encode(samples)) == encode(~samples)


@pytest.mark.parametrize(("decode", "encode"), [(ulaw_decode, ulaw_encode), (alaw_decode, alaw_encode)])
def test_code_words_survive_the_round_trip(decode: Decode, encode: Encode) -> None:
    again = bytearray(encode(decode(EVERY_CODE)))
    if decode is ulaw_decode:
        assert again[0x7F] == 0xFF  # minus zero becomes zero
        again[0x7F] = 0x7F
    assert bytes(again) == EVERY_CODE


def test_decoding_agrees_with_the_old_standard_library() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        audioop = pytest.importorskip("audioop", reason="audioop left the standard library with Python 3.13")
    assert ulaw_decode(EVERY_CODE).tobytes() == audioop.ulaw2lin(EVERY_CODE, 2)
    assert alaw_decode(EVERY_CODE).tobytes() == audioop.alaw2lin(EVERY_CODE, 2)
    assert alaw_encode(EVERY_SAMPLE) == audioop.lin2alaw(EVERY_SAMPLE.tobytes(), 2)
    positive = EVERY_SAMPLE[EVERY_SAMPLE >= 0]  # audioop rounds negative samples away from zero before mu-law
    assert ulaw_encode(positive) == audioop.lin2ulaw(positive.tobytes(), 2)


@pytest.mark.parametrize(("decode", "encode"), [(ulaw_decode, ulaw_encode), (alaw_decode, alaw_encode)])
def test_a_tone_stays_a_tone(decode: Decode, encode: Encode) -> None:
    """Case 9: 440 Hz measures 440 Hz."""
    tone = (12000 * np.sin(2 * np.pi * 440 * np.arange(8000) / 8000)).astype(np.int16)
    heard = decode(encode(tone))
    assert heard.size == 8000
    assert int(np.argmax(np.abs(np.fft.rfft(heard)))) == 440
    noise = heard.astype(np.float64) - tone
    assert 10 * np.log10(np.mean(tone.astype(np.float64) ** 2) / np.mean(noise**2)) > 35


def test_nothing_in_nothing_out() -> None:
    assert ulaw_decode(b"").size == 0
    assert alaw_encode(np.zeros(0, np.int16)) == b""
