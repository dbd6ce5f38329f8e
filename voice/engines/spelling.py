"""Which spelling of the same words is written like a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from voice.engines.asr import Hypothesis

CLOSE_SPELLING = 2.0
"""Log-probability (nats) that a hypothesis may lack to be taken for its better spelling of the same words."""

SENTENCE_ENDS = frozenset(".?!。？！")


def well_written(spellings: Sequence[Hypothesis]) -> Hypothesis:
    """Of hypotheses in the same words, best first: the one written like a sentence, if nearly as likely as the best.

    A LLM takes "And which river runs through it?" for a question, and "and which river runs through it." for nothing.
    """
    best = spellings[0]
    for spelling in spellings:
        close = spelling.log_probability >= best.log_probability - CLOSE_SPELLING
        if close and spelling.text[:1].isupper() and spelling.text[-1:] in SENTENCE_ENDS:
            return Hypothesis(spelling.text, best.log_probability)
    return Hypothesis(best.text[:1].upper() + best.text[1:], best.log_probability)
