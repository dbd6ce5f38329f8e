from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from voice.audio import StreamResampler, resample


def sine(rate_hz: int, seconds: float = 1.0, hz: float = 440.0) -> NDArray[np.float32]:
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(round(rate_hz * seconds)) / rate_hz)).astype(np.float32)


def stream(resampler: StreamResampler, samples: NDArray[np.float32], chunk: int) -> NDArray[np.float32]:
    parts = [resampler.process(samples[at : at + chunk]) for at in range(0, samples.size, chunk)]
    return np.concatenate([*parts, resampler.flush()])


@pytest.mark.parametrize("rate_hz", [48000, 44100, 24000, 22050, 16000, 8000])
def test_a_second_stays_a_second_and_a_tone_its_pitch(rate_hz: int) -> None:
    """Case 2."""
    heard = stream(StreamResampler(rate_hz, 16000), sine(rate_hz), rate_hz // 50)
    assert abs(heard.size - 16000) <= 1
    assert abs(int(np.argmax(np.abs(np.fft.rfft(heard[:16000])))) - 440) <= 1
    assert heard.dtype == np.float32


@pytest.mark.parametrize(("source_hz", "target_hz"), [(48000, 16000), (22050, 24000), (24000, 16000), (24000, 8000)])
def test_chunks_do_not_crackle(source_hz: int, target_hz: int) -> None:
    """Case 3: 10 ms chunks give the samples of one block, and those of the filter for whole recordings."""
    tone = sine(source_hz)
    chunked = stream(StreamResampler(source_hz, target_hz), tone, source_hz // 100)
    assert np.array_equal(chunked, stream(StreamResampler(source_hz, target_hz), tone, tone.size))
    whole = resample(tone, source_hz, target_hz)
    assert chunked.size == whole.size
    inside = slice(200, -200)  # the two filters see the sudden ends of the tone differently
    assert float(np.max(np.abs(chunked[inside] - whole[inside]))) < 2e-3
    assert float(np.max(np.abs(chunked - whole))) < 1e-2
    spectrum = np.abs(np.fft.rfft(chunked * np.hanning(chunked.size)))
    spectrum /= spectrum.max()
    hundreds = [bin_hz for bin_hz in range(100, target_hz // 2, 100) if abs(bin_hz - 440) > 10]
    assert float(spectrum[hundreds].max()) < 1e-3


@pytest.mark.parametrize(("source_hz", "target_hz"), [(48000, 16000), (22050, 24000), (24000, 16000), (8000, 16000)])
def test_the_stream_lags_its_input_by_few_milliseconds(source_hz: int, target_hz: int) -> None:
    resampler = StreamResampler(source_hz, target_hz)
    made = resampler.process(sine(source_hz)).size
    assert target_hz - made <= target_hz * 5 // 1000


@pytest.mark.parametrize(("source_hz", "target_hz"), [(48000, 16000), (24000, 16000), (22050, 8000)])
def test_what_the_lower_rate_cannot_carry_does_not_fold_back(source_hz: int, target_hz: int) -> None:
    above = sine(source_hz, hz=target_hz / 2 * 1.12)
    heard = stream(StreamResampler(source_hz, target_hz), above, source_hz // 50)
    assert float(np.max(np.abs(heard[200:-200]))) < 0.5 * 10 ** (-80 / 20)


def test_empty_and_large_outputs() -> None:
    """Case 5: a filter may hold everything back, or give more than one VAD window at once."""
    resampler = StreamResampler(48000, 16000)
    assert resampler.process(np.zeros(0, np.float32)).size == 0
    assert resampler.process(np.zeros(3, np.float32)).size == 0
    two_seconds = resampler.process(np.zeros(96000, np.float32))
    assert two_seconds.size > 3 * 512
    small = StreamResampler(48000, 16000)
    frames = [small.process(np.zeros(480, np.float32)).size for _ in range(200)]
    assert sum(frames) // 512 == (32000 - (32000 - sum(frames))) // 512
    assert sum(frames) + small.flush().size == 32000


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([(48000, 16000), (24000, 16000), (22050, 24000), (8000, 24000), (16000, 16000)]),
    st.lists(st.integers(0, 3000), min_size=1, max_size=20),
)
def test_cuts_do_not_matter(rates: tuple[int, int], cuts: list[int]) -> None:
    noise = np.random.default_rng(7).uniform(-0.5, 0.5, sum(cuts) + 100).astype(np.float32)
    resampler = StreamResampler(*rates)
    parts = []
    at = 0
    for cut in cuts:
        parts.append(resampler.process(noise[at : at + cut]))
        at += cut
    parts += [resampler.process(noise[at:]), resampler.flush()]
    whole = StreamResampler(*rates)
    assert np.array_equal(np.concatenate(parts), np.concatenate([whole.process(noise), whole.flush()]))


def test_flush_starts_a_new_stream() -> None:
    resampler = StreamResampler(24000, 16000)
    first = stream(resampler, sine(24000), 480)
    assert np.array_equal(stream(resampler, sine(24000), 480), first)


def test_flush_of_nothing() -> None:
    assert StreamResampler(24000, 16000).flush().size == 0
    assert StreamResampler(16000, 16000).flush().size == 0


def test_equal_rates_pass_through() -> None:
    samples = sine(16000, 0.1)
    assert np.array_equal(StreamResampler(16000, 16000).process(samples), samples)
    assert np.array_equal(resample(samples, 16000, 16000), samples)


@pytest.mark.parametrize("rate_hz", [0, -1])
def test_rates_that_are_none(rate_hz: int) -> None:
    with pytest.raises(ValueError, match="positive"):
        StreamResampler(rate_hz, 16000)
    with pytest.raises(ValueError, match="positive"):
        resample(np.zeros(10, np.float32), 16000, rate_hz)
