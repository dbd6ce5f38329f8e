"""Corrections to phonemes."""

from __future__ import annotations

import pytest

from voice.text.articulation import separate_is


@pytest.mark.parametrize(
    ("phonemes", "corrected"),
    [
        ("fɹˈæns ɪz pˈæɹɪs.", "fɹˈæns ˌɪz pˈæɹɪs."),
        ("ðə skˈaɪ ɪz blˈuː.", "ðə skˈaɪ ɪz blˈuː."),
        ("ðɪs ɪz ɪt.", "ðɪs ˌɪz ɪt."),
        ("bˈɪz ɪzˈi", "bˈɪz ɪzˈi"),
        (" ɪz ɪt", " ɪz ɪt"),
        ("", ""),
    ],
)
def test_is_stands_apart_from_a_hiss(phonemes: str, corrected: str) -> None:
    assert "".join(separate_is(phonemes)) == corrected
