"""Which spelling of the same words a transcript takes."""

from __future__ import annotations

from voice.engines.asr import Hypothesis
from voice.engines.spelling import well_written


def test_a_sentence_is_preferred_when_nearly_as_likely() -> None:
    spellings = [
        Hypothesis("and which river runs through it.", -1.96),
        Hypothesis("and which River runs through it.", -2.36),
        Hypothesis("And which river runs through it?", -3.07),
    ]
    assert well_written(spellings) == Hypothesis("And which river runs through it?", -1.96)


def test_an_unlikely_spelling_is_not_taken() -> None:
    spellings = [Hypothesis("stop", -0.5), Hypothesis("Stop!", -4.0)]
    assert well_written(spellings) == Hypothesis("Stop", -0.5)


def test_nothing_stays_nothing() -> None:
    assert well_written([Hypothesis("", -0.1)]) == Hypothesis("", -0.1)
