from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from voice.audio import Pcm16Decoder, float_to_pcm16, pcm16_to_float


def every_sample() -> NDArray[np.int16]:
    return np.arange(-32768, 32768, dtype=np.int32).astype(np.int16)


def test_every_sample_survives_the_round_trip_exactly() -> None:
    assert np.array_equal(float_to_pcm16(pcm16_to_float(every_sample())), every_sample())


def test_bytes_are_little_endian_and_floats_lie_in_minus_one_to_one() -> None:
    floats = pcm16_to_float(b"\x00\x80\xff\x7f\x00\x00\x00\x40")
    assert floats.dtype == np.float32
    assert floats.tolist() == [-1.0, 32767 / 32768, 0.0, 0.5]


def test_out_of_range_clips_and_what_is_no_number_is_silence() -> None:
    """Case 8: never wraps."""
    samples = np.array([1.7, -2.0, np.nan, np.inf, -np.inf, 0.5, 1.0, -1.0, 3e38], dtype=np.float32)
    assert float_to_pcm16(samples).tolist() == [32767, -32768, 0, 0, 0, 16384, 32767, -32768, 32767]


def test_float64_input_is_taken_too() -> None:
    assert float_to_pcm16(np.array([0.25, -0.25])).tolist() == [8192, -8192]


def test_float_and_int16_versions_of_a_sine_agree() -> None:
    """Case 8: within 1e-3 RMS."""
    sine = (0.5 * np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)).astype(np.float32)
    difference = pcm16_to_float(float_to_pcm16(sine)) - sine
    assert float(np.sqrt(np.mean(difference**2))) < 1e-3


def test_odd_chunks_lose_nothing() -> None:
    """Case 1: three messages of 481 bytes and one of 1."""
    ramp = np.arange(722, dtype=np.int16)
    data = ramp.tobytes()
    decoder = Pcm16Decoder()
    parts = [decoder.feed(data[at : at + 481]) for at in (0, 481, 962)]
    assert decoder.dangling
    parts.append(decoder.feed(data[1443:]))
    assert not decoder.dangling
    assert np.array_equal(np.concatenate(parts), ramp)


def test_empty_and_single_byte_chunks() -> None:
    decoder = Pcm16Decoder()
    assert decoder.feed(b"").size == 0
    assert decoder.feed(b"\x01").size == 0
    assert decoder.feed(b"").size == 0
    assert decoder.feed(b"\x02").tolist() == [0x0201]


def test_reset_drops_half_a_sample_and_says_so() -> None:
    decoder = Pcm16Decoder()
    decoder.feed(b"\x01\x02\x03")
    assert decoder.reset()
    assert not decoder.reset()
    assert decoder.feed(b"\x05\x00").tolist() == [5]


def test_half_a_sample_is_an_error_where_there_is_no_next_chunk() -> None:
    with pytest.raises(ValueError, match="element size"):
        pcm16_to_float(b"\x00")


@given(st.binary(max_size=400), st.lists(st.integers(0, 60), max_size=30))
def test_cuts_do_not_matter(data: bytes, cuts: list[int]) -> None:
    decoder = Pcm16Decoder()
    parts = [np.zeros(0, np.int16)]
    at = 0
    for cut in cuts:
        parts.append(decoder.feed(data[at : at + cut]))
        at += cut
    parts.append(decoder.feed(data[at:]))
    whole = len(data) & ~1
    assert np.concatenate(parts).tobytes() == data[:whole]
    assert decoder.dangling == (len(data) % 2 == 1)
