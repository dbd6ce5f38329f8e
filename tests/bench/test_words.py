from __future__ import annotations

import pytest

from voice.bench.words import WordErrors, word_errors, words_of


def test_words() -> None:
    assert words_of("What's the 'capital' of France, s'il vous plaît?") == [
        "what's", "the", "capital", "of", "france", "s'il", "vous", "plaît",
    ]  # fmt: skip
    assert words_of("It’s") == ["it's"]
    assert words_of(" - ") == []


@pytest.mark.parametrize(
    ("reference", "heard", "errors"),
    [
        ("What is it?", "what is it", 0),
        ("what is it", "what it", 1),
        ("what is it", "what is is it", 1),
        ("what is it", "that is it", 1),
        ("what is it", "", 3),
        ("", "what", 1),
        ("a b c d", "b c d e", 2),
    ],
)
def test_errors(reference: str, heard: str, errors: int) -> None:
    assert word_errors(reference, heard) == WordErrors(errors, len(reference.split()))


def test_rates_add_up() -> None:
    assert (WordErrors(1, 3) + WordErrors(0, 7)).rate == 0.1
    assert WordErrors(0, 0).rate == 0.0 and WordErrors(2, 0).rate == 1.0
