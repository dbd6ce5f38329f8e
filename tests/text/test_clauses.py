"""Clause cutting: early first clause, natural breaks, and no dependence on how the text was split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice.text.clauses import ClauseCutter, ClauseLimits


def cut(*deltas: str) -> list[str]:
    cutter = ClauseCutter()
    clauses = [clause for delta in deltas for clause in cutter.feed(delta)]
    rest = cutter.flush()
    return [clause.strip() for clause in [*clauses, rest] if clause]


TABLE = [
    ("Paris.", ["Paris."]),
    ("Good morning. What can I do", ["Good morning.", "What can I do"]),
    ("Pi is 3.14 and Dr. Lee paid $29.50. Thanks!", ["Pi is 3.14 and Dr. Lee paid $29.50.", "Thanks!"]),
    ("See e.g. the U.S. map.", ["See e.g. the U.S. map."]),
    ("Wait... what?", ["Wait...", "what?"]),
    ("1. First 2. Second", ["1. First 2. Second"]),
    ("Sure, here you go.", ["Sure, here you go."]),
    ("Of course you can, it is easy.", ["Of course you can,", "it is easy."]),
    ("The capital of France is Paris.", ["The capital of France is Paris."]),
    ("The sky looks blue because light scatters.", ["The sky looks blue", "because light scatters."]),
    ("One two three four is in here.", ["One two three four is in here."]),
    ("One two three four five six seven eight nine ten.", ["One two three four five six seven eight nine", "ten."]),
    ("Yes (I think so. Really) it is. Fine.", ["Yes (I think so. Really) it is.", "Fine."]),
    ('He said "go." Then he left.', ['He said "go."', "Then he left."]),
    ("东京是首都。它很大。", ["东京是首都。", "它很大。"]),
    ("", []),
    ("   ", [""]),
]


@pytest.mark.parametrize(("text", "clauses"), TABLE)
def test_table(text: str, clauses: list[str]) -> None:
    assert cut(text) == clauses


@pytest.mark.parametrize(("text", "clauses"), TABLE)
def test_one_character_at_a_time_gives_the_same(text: str, clauses: list[str]) -> None:
    assert cut(*text) == clauses


@given(
    st.lists(
        st.sampled_from(["Yes", "Dr.", "3.14", ",", ". ", "? ", " ", "(", ")", "word", "e.g.", "\n", "…", "。"]),
        max_size=80,
    ),
    st.lists(st.integers(1, 12), min_size=1, max_size=20),
)
def test_the_split_does_not_matter_and_nothing_is_lost(pieces: list[str], sizes: list[int]) -> None:
    text = "".join(pieces)
    whole = ClauseCutter()
    expected = [*whole.feed(text), whole.flush()]
    parts = ClauseCutter()
    got = []
    position = turn = 0
    while position < len(text):
        size = sizes[turn % len(sizes)]
        got += parts.feed(text[position : position + size])
        position += size
        turn += 1
    got.append(parts.flush())
    assert got == expected
    assert "".join(got) == text


@given(st.text(alphabet="ab ,", max_size=1500))
def test_no_clause_is_longer_than_the_limit(text: str) -> None:
    cutter = ClauseCutter(ClauseLimits(max_chars=100))
    assert all(len(clause) <= 100 for clause in cutter.feed(text))
