"""Where two readings are close, the LLM's opinion of them.

Whisper hears sounds; the LLM knows what people ask. "What is the capital of friends?" sounds more like one recording
than "... of France?", and is far less likely to be asked. This is n-best rescoring, as old as language models in speech
recognition (Ostendorf et al. 1991), with the LLM that is loaded anyway, in its own chat template.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from voice.engines.asr import Hypothesis

log = logging.getLogger(__name__)

Score = Callable[[Sequence[str]], Awaitable[list[float] | None]]
"""The log-probability (nats) of each text, or None when the LLM cannot tell: ``LanguageModel.score``."""

CLOSE = 2.0
"""Readings within this log-probability (nats) of the best one are asked about. Most turns have one such reading."""

LLM_WEIGHT = 0.15
"""Share of the LLM's log-probability. With CLOSE, chosen on 66 utterances with the default models (50 of read speech,
16 spoken questions), not on others: WER 7.1 %, against 8.1 % greedy and 7.3 % by beam search alone."""


async def likeliest(readings: Sequence[Hypothesis], score: Score) -> int:
    """The index of the reading that recogniser and LLM together find most likely; 0 if the LLM cannot judge."""
    close = close_readings(readings)
    if len(close) == 1:
        return 0
    try:
        scores = await score([reading.text for reading in close])
    except Exception:
        log.exception("the LLM could not judge the readings of a turn")
        return 0
    return 0 if scores is None else readings.index(choose(close, scores))


def close_readings(readings: Sequence[Hypothesis]) -> list[Hypothesis]:
    """The first, which is the recogniser's best, and those nearly as likely."""
    floor = readings[0].log_probability - CLOSE
    return [readings[0], *(other for other in readings[1:] if other.log_probability >= floor)]


def choose(readings: Sequence[Hypothesis], scores: Sequence[float]) -> Hypothesis:
    """The reading with the best joint log-probability."""
    joined = [reading.log_probability + LLM_WEIGHT * score for reading, score in zip(readings, scores, strict=True)]
    return readings[joined.index(max(joined))]
