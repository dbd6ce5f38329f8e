"""What of a clause is said aloud."""

from __future__ import annotations

import pytest

from voice.text.spoken import to_spoken


@pytest.mark.parametrize(
    ("clause", "spoken"),
    [
        ("Hi.", "Hi."),
        ("  two   spaces\n", "two spaces"),
        ("**Step 1:** run `ls -la`", "Step 1: run ls -la"),
        ("# Title", "Title"),
        ("- first ✅", "first"),
        ("[docs](https://x.y/a)", "docs"),
        ("3 * 4 = 12", "3 * 4 = 12"),
        ("5 < 7 and x<y", "5 < 7 and x<y"),
        ("snake_case_name", "snake_case_name"),
        ("Sure.<|im_end|>", "Sure."),
        ("</s>Bye", "Bye"),
        ("café 😀", "café"),
    ],
)
def test_markup_goes_and_meaning_stays(clause: str, spoken: str) -> None:
    assert to_spoken(clause) == spoken


@pytest.mark.parametrize("clause", ["", "   ", "...", "!!!", "😀", "—", "\u200b", "**", "- "])
def test_nothing_to_say_is_empty(clause: str) -> None:
    assert to_spoken(clause) == ""
