"""The constant part of a signal goes; sound stays, however the stream was cut."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from voice.audio.dc import DcBlocker

RATE_HZ = 16_000


def tone(hz: float, seconds: float = 2.0) -> np.ndarray:
    return (0.25 * np.sin(2 * np.pi * hz * np.arange(int(seconds * RATE_HZ)) / RATE_HZ)).astype(np.float32)


def test_an_offset_goes_at_once_and_stays_away() -> None:
    clean = DcBlocker(RATE_HZ).process(np.full(3 * RATE_HZ, 0.02, dtype=np.float32))
    assert np.abs(clean).max() < 1e-6


def test_sound_over_an_offset_is_the_sound() -> None:
    for hz in (20, 50, 440, 7000):
        heard = DcBlocker(RATE_HZ).process(tone(hz) + np.float32(0.02))[RATE_HZ:]
        said = tone(hz)[RATE_HZ:]
        gain_db = 20 * np.log10(np.std(heard) / np.std(said))
        assert abs(gain_db) < 1.0, hz
        assert abs(float(np.mean(heard))) < 1e-3


@given(st.lists(st.integers(0, 9000), max_size=12), st.integers(0, 2**32 - 1))
def test_chunks_do_not_matter(sizes: list[int], seed: int) -> None:
    samples = (np.random.default_rng(seed).normal(0.05, 0.1, 20_000)).astype(np.float32)
    whole = DcBlocker(RATE_HZ).process(samples)
    blocker, parts, at = DcBlocker(RATE_HZ), [], 0
    for size in [*sizes, len(samples)]:
        parts.append(blocker.process(samples[at : at + size]))
        at += size
    assert np.array_equal(np.concatenate(parts), whole)
