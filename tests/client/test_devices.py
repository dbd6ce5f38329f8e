"""Microphone and speaker on a fake PortAudio: rates, backlogs, barge-in. Cases 15 and 16."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
import pytest

from voice.audio import pcm16_to_float
from voice.client.devices import (
    INPUT_BACKLOG_MS,
    LEFTOVER_MS,
    OUTPUT_BACKLOG_S,
    Microphone,
    Speaker,
    find_device,
    load_sounddevice,
)
from voice.client.testing import FakeSoundDevice, Status, tone
from voice.errors import ResourceError


def block(value: float, rate_hz: int = 24000) -> Any:
    return np.full(rate_hz // 50, value, dtype=np.float32)


def test_the_wire_rate_is_tried_first() -> None:
    sd = FakeSoundDevice()
    microphone = Microphone(sd)
    assert microphone.rate_hz == 24000
    assert sd.attempts == [("input", 24000, 1)]
    assert sd.streams["input"].started
    assert sd.streams["input"].options["blocksize"] == 480
    microphone.close()
    assert sd.streams["input"].closed


def test_an_invalid_rate_falls_back_to_the_devices_own() -> None:
    """Case 15."""
    sd = FakeSoundDevice(rates=(48000,))
    microphone, speaker = Microphone(sd), Speaker(sd)
    assert (microphone.rate_hz, speaker.rate_hz) == (48000, 48000)
    heard = 0
    for _ in range(50):
        sd.streams["input"].record(pcm16_to_float(tone(0.02, rate_hz=48000)))
        heard += microphone.read().size
    assert 24000 - 1500 <= heard <= 24000
    speaker.begin_reply()
    speaker.play(tone(0.5))
    speaker.end_reply()
    assert speaker.backlog_ms == pytest.approx(500, abs=1)


def test_a_device_without_mono() -> None:
    sd = FakeSoundDevice(rates=(44100,), own_hz=44100.0, min_channels=2)
    microphone = Microphone(sd)
    assert sd.attempts[-1] == ("input", 44100, 2)
    sd.streams["input"].record(block(0.5, 44100))
    microphone.read()
    assert microphone.level_dbfs == pytest.approx(-6.02, abs=0.01)


def test_nothing_works_is_one_line() -> None:
    sd = FakeSoundDevice()
    sd.busy = True
    with pytest.raises(ResourceError, match=r"microphone 'Fake input' could not be opened: .*unavailable") as caught:
        Microphone(sd)
    assert "\n" not in str(caught.value)


def test_missing_devices_are_one_line() -> None:
    sd = FakeSoundDevice()
    sd.missing = {"input", "output"}
    with pytest.raises(ResourceError, match="no microphone was found"):
        find_device(sd, None, "input")
    with pytest.raises(ResourceError, match="no speaker was found"):
        Speaker(sd)
    with pytest.raises(ResourceError, match="no speaker matches 'Nowhere'"):
        find_device(FakeSoundDevice(), "Nowhere", "output")
    assert find_device(FakeSoundDevice(), "0", "output")[0] == 0


@pytest.mark.parametrize(
    ("error", "platform", "words"),
    [
        (ImportError("no module"), "linux", r"pip install 'voice\[client\]'"),
        (OSError("PortAudio library not found"), "linux", "libportaudio2"),
        (OSError("PortAudio library not found"), "darwin", "brew install portaudio"),
    ],
)
def test_missing_libraries_are_named(
    monkeypatch: pytest.MonkeyPatch, error: Exception, platform: str, words: str
) -> None:
    def fail(name: str) -> None:
        raise error

    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(ResourceError, match=words):
        load_sounddevice()


def test_a_stalled_sender_loses_the_oldest_input_and_no_more() -> None:
    """Case 16: three seconds of stall leave the latest half second."""
    sd = FakeSoundDevice()
    wakes: list[int] = []
    microphone = Microphone(sd, wake=lambda: wakes.append(1))
    for number in range(150):
        sd.streams["input"].record(block(number / 1000), Status(overflow=number == 7))
    assert len(wakes) == 150
    kept = INPUT_BACKLOG_MS // 20
    assert microphone.dropped_blocks == 150 - kept
    assert microphone.overflows == 1
    samples = pcm16_to_float(microphone.read())
    assert samples.size == kept * 480
    assert samples[0] == pytest.approx((150 - kept) / 1000, abs=1e-4)
    assert samples[-1] == pytest.approx(0.149, abs=1e-4)
    assert microphone.read().size == 0


def test_input_does_not_lag_after_five_minutes_of_stalls() -> None:
    sd = FakeSoundDevice()
    microphone = Microphone(sd)
    for number in range(5 * 60 * 50):
        sd.streams["input"].record(block(0.0))
        if number % 100 > 60:  # a sender that stalls 1.2 s in every 2 s
            microphone.read()
    assert len(microphone._blocks) * 20 <= INPUT_BACKLOG_MS


def test_played_samples_are_the_replys_samples() -> None:
    sd = FakeSoundDevice()
    speaker = Speaker(sd)
    reply = tone(1.0)
    speaker.begin_reply()
    for start in range(0, reply.size, 1111):
        speaker.play(reply[start : start + 1111])
    speaker.end_reply()
    fetched = np.concatenate([sd.streams["output"].fetch(777) for _ in range(40)])
    assert np.array_equal(fetched[: reply.size], pcm16_to_float(reply))
    assert not fetched[reply.size :].any()
    assert speaker.played_ms == 1000
    assert speaker.backlog_ms == 0 and speaker.dropped_samples == 0


def test_an_empty_queue_plays_silence_and_counts_underflows() -> None:
    sd = FakeSoundDevice()
    speaker = Speaker(sd)
    assert not sd.streams["output"].fetch(480, Status(underflow=True)).any()
    assert speaker.underflows == 1
    assert speaker.played_ms == 0


def test_barge_in_silences_at_once_and_the_next_reply_is_whole() -> None:
    sd = FakeSoundDevice()
    speaker = Speaker(sd)
    speaker.begin_reply()
    speaker.play(tone(2.0))
    for _ in range(25):
        sd.streams["output"].fetch(470)
    assert speaker.played_ms == round(25 * 470 / 24)
    speaker.flush()
    assert not sd.streams["output"].fetch(480).any()
    speaker.begin_reply()
    speaker.play(tone(0.5))
    assert np.array_equal(sd.streams["output"].fetch(12000), pcm16_to_float(tone(0.5)))
    assert speaker.played_ms == 500


def test_a_new_reply_leaves_little_of_the_old_one() -> None:
    """Case 16: whatever is left of an earlier reply, the lag stays under its cap."""
    sd = FakeSoundDevice()
    speaker = Speaker(sd)
    for _ in range(50):
        speaker.begin_reply()
        assert speaker.backlog_ms <= LEFTOVER_MS
        speaker.play(tone(1.0))
        sd.streams["output"].fetch(480)
    assert speaker.dropped_samples > 0


def test_the_output_backlog_is_bounded() -> None:
    speaker = Speaker(FakeSoundDevice())
    speaker.begin_reply()
    for _ in range(13):
        speaker.play(np.zeros(240_000, np.int16))
    assert speaker.backlog_ms <= OUTPUT_BACKLOG_S * 1000
    assert speaker.dropped_samples == 13 * 240_000 - OUTPUT_BACKLOG_S * 24000
