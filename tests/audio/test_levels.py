from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from voice.audio import fade, first_audible, last_audible, read_wav, rms_dbfs, trim_silence
from voice.audio.levels import SILENCE_DBFS

RATE = 16000
DEMO = Path(__file__).parents[3] / "shared" / "speech" / "demo"


def tone(seconds: float, amplitude: float = 0.3) -> NDArray[np.float32]:
    return (amplitude * np.sin(2 * np.pi * 200 * np.arange(round(seconds * RATE)) / RATE)).astype(np.float32)


def silence(seconds: float) -> NDArray[np.float32]:
    return np.zeros(round(seconds * RATE), np.float32)


def noise(samples: int, dbfs: float) -> NDArray[np.float32]:
    return (10 ** (dbfs / 20) * np.random.default_rng(3).standard_normal(samples)).astype(np.float32)


def test_rms_of_known_signals() -> None:
    assert rms_dbfs(np.ones(100, np.float32)) == pytest.approx(0.0)
    assert rms_dbfs(np.full(100, 0.1, np.float32)) == pytest.approx(-20.0, abs=1e-4)
    assert rms_dbfs(tone(1.0, 1.0)) == pytest.approx(-3.01, abs=0.01)
    assert rms_dbfs(silence(1.0)) == SILENCE_DBFS
    assert rms_dbfs(np.zeros(0, np.float32)) == SILENCE_DBFS


def test_ends_of_a_tone_in_silence() -> None:
    sound = np.concatenate([silence(0.5), tone(1.0), silence(0.7)])
    first, last = first_audible(sound, RATE), last_audible(sound, RATE)
    assert first is not None and last is not None
    assert abs(first - 0.5 * RATE) <= 2
    assert abs(last - 1.5 * RATE) <= 0.005 * RATE


def test_ends_of_a_tone_in_noise() -> None:
    sound = np.concatenate([silence(0.5), tone(1.0), silence(0.7)])
    last = last_audible(sound + noise(sound.size, -45), RATE)
    assert last is not None
    assert abs(last - 1.5 * RATE) <= 0.02 * RATE


def test_a_click_after_the_speech_is_not_speech() -> None:
    sound = np.concatenate([tone(1.0), silence(1.0)])
    sound[round(1.8 * RATE)] = 0.9
    last = last_audible(sound, RATE)
    assert last is not None
    assert abs(last - 1.0 * RATE) <= 0.005 * RATE


def test_silence_has_no_ends() -> None:
    for sound in (silence(1.0), np.zeros(0, np.float32), noise(RATE, -65)):
        assert first_audible(sound, RATE) is None
        assert last_audible(sound, RATE) is None
        assert trim_silence(sound, RATE).size == 0


def test_first_audible_does_not_change_as_the_stream_grows() -> None:
    sound = np.concatenate([silence(0.123), tone(0.3), silence(0.2), tone(0.3, 0.9)])
    answers = {first_audible(sound[:size], RATE) for size in range(100, sound.size, 97)}
    assert len(answers - {None}) == 1


def test_very_short_sounds() -> None:
    assert first_audible(np.array([0.5], np.float32), RATE) == 0
    assert last_audible(np.array([0.5], np.float32), RATE) == 0


def test_trim_keeps_a_margin() -> None:
    sound = np.concatenate([silence(0.5), tone(1.0), silence(0.7)])
    trimmed = trim_silence(sound, RATE, keep_ms=50)
    assert abs(trimmed.size - 1.1 * RATE) <= 0.01 * RATE
    assert abs(trim_silence(tone(0.5), RATE).size - 0.5 * RATE) <= 1


def test_fade_starts_and_ends_at_zero_and_leaves_the_middle() -> None:
    sound = np.full(RATE, 0.5, np.float32)
    faded = fade(sound, RATE, ms=10)
    assert faded[0] == 0.0 and faded[-1] == 0.0
    assert np.array_equal(faded[160:-160], sound[160:-160])
    assert np.all(np.diff(faded[:161]) >= 0)
    assert np.all(sound == 0.5)


def test_fade_of_almost_nothing() -> None:
    assert fade(np.zeros(0, np.float32), RATE).size == 0
    assert fade(np.array([0.5], np.float32), RATE).tolist() == [0.5]
    assert fade(np.full(4, 0.5, np.float32), RATE).size == 4


@pytest.mark.skipif(not DEMO.is_dir(), reason="the speech recordings (../shared/speech) are not here")
def test_last_voiced_sample_of_real_questions() -> None:
    lines = (DEMO / "manifest.jsonl").read_text().splitlines()
    entries = [entry for entry in map(json.loads, lines) if entry.get("last_voiced_s")]
    assert entries
    for entry in entries:
        samples, rate_hz = read_wav(DEMO.parent / entry["path"])
        last = last_audible(samples, rate_hz)
        assert last is not None
        assert last / rate_hz == pytest.approx(entry["last_voiced_s"], abs=0.12), entry["path"]
