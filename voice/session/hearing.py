"""What the user said: the recogniser's readings, and where two are close, the LLM's opinion of them.

Whisper hears sounds; the LLM knows what people ask. "What is the capital of friends?" sounds more like one recording
than "... of France?", and is far less likely to be asked. This is n-best rescoring, as old as language models in speech
recognition (Ostendorf et al. 1991), with the LLM that is loaded anyway, in its own chat template.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from voice.engines.asr import Hypothesis, Transcript
from voice.engines.bundle import Engines

log = logging.getLogger(__name__)

CLOSE = 2.0
"""Readings within this log-probability (nats) of the best one are asked about. Most turns have one such reading."""

LLM_WEIGHT = 0.15
"""Share of the LLM's log-probability. With CLOSE, chosen on 66 utterances with the default models (50 of read speech,
16 spoken questions), not on others: WER 7.1 %, against 8.1 % greedy and 7.3 % by beam search alone."""


async def hear(engines: Engines, samples: NDArray[np.float32], language: str | None, prompt: str | None) -> str:
    """The words in ``samples`` (16 kHz). Raises what the recogniser raises; its best stands if the LLM cannot judge."""
    transcript = await engines.asr.transcribe(samples, language=language, prompt=prompt)
    readings = close_readings(transcript)
    if len(readings) == 1:
        return transcript.text
    try:
        scores = await engines.llm.score([reading.text for reading in readings])
    except Exception:
        log.exception("the LLM could not judge the readings of a turn")
        scores = None
    return choose(readings, scores)


def close_readings(transcript: Transcript) -> list[Hypothesis]:
    """The best reading and those nearly as likely."""
    best = Hypothesis(transcript.text, transcript.log_probability)
    floor = best.log_probability - CLOSE
    return [best, *(other for other in transcript.alternatives if other.log_probability >= floor)]


def choose(readings: Sequence[Hypothesis], scores: Sequence[float] | None) -> str:
    """The reading that recogniser and LLM together find most likely; the recogniser's own without scores."""
    if scores is None:
        return readings[0].text
    joined = [reading.log_probability + LLM_WEIGHT * score for reading, score in zip(readings, scores, strict=True)]
    return readings[joined.index(max(joined))].text
