from __future__ import annotations

import pytest

from voice.client.player import VirtualPlayer


def test_audio_in_time_plays_without_a_hole() -> None:
    player = VirtualPlayer(1000)
    assert player.ends_at_s is None
    assert player.feed(500, 10.0) == 10.0
    assert player.feed(500, 10.1) == 10.5
    assert player.ends_at_s == 11.0
    assert player.underruns == 0 and player.gap_s == 0.0


def test_late_audio_is_an_underrun() -> None:
    player = VirtualPlayer(1000)
    player.feed(500, 10.0)
    assert player.feed(100, 10.7) == 10.7
    assert player.underruns == 1
    assert player.gap_s == pytest.approx(0.2)
    assert player.ends_at_s == pytest.approx(10.8)


def test_an_empty_delta_is_neither_audio_nor_underrun() -> None:
    player = VirtualPlayer(1000)
    player.feed(0, 1.0)
    assert player.ends_at_s is None
    player.feed(100, 2.0)
    player.feed(0, 9.0)
    assert player.underruns == 0 and player.ends_at_s == 2.1
