"""Close readings are settled by the LLM; clear ones are left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from voice.engines.asr import Hypothesis
from voice.hearing.rescoring import choose, close_readings, likeliest

FRIENDS = Hypothesis("What is the capital of friends?", -0.8)
FRANCE = Hypothesis("What is the capital of France?", -1.2)
FRANCS = Hypothesis("What is the capital of francs?", -5.8)
LIKELIHOODS = {FRIENDS.text: -30.4, FRANCE.text: -15.3, FRANCS.text: -1.0}


async def by_list(texts: Sequence[str]) -> list[float] | None:
    return [LIKELIHOODS[text] for text in texts]


async def no_opinion(texts: Sequence[str]) -> list[float] | None:
    return None


async def failing(texts: Sequence[str]) -> list[float] | None:
    raise RuntimeError("no logprobs")


def test_only_close_readings_are_asked_about() -> None:
    assert close_readings([FRIENDS, FRANCE, FRANCS]) == [FRIENDS, FRANCE]
    assert close_readings([FRANCS]) == [FRANCS]


def test_the_llm_settles_what_sounds_alike() -> None:
    assert asyncio.run(likeliest([FRIENDS, FRANCE, FRANCS], by_list)) == 1
    assert asyncio.run(likeliest([FRIENDS, FRANCS, FRANCE], by_list)) == 2


def test_a_llm_without_an_opinion_or_with_an_error_leaves_the_recogniser_its_own() -> None:
    assert asyncio.run(likeliest([FRIENDS, FRANCE], no_opinion)) == 0
    assert asyncio.run(likeliest([FRIENDS, FRANCE], failing)) == 0


def test_one_reading_needs_no_llm() -> None:
    assert asyncio.run(likeliest([FRIENDS], failing)) == 0


def test_sound_outweighs_a_slightly_likelier_sentence() -> None:
    a, b = Hypothesis("a", -0.5), Hypothesis("b", -1.5)
    assert choose([a, b], [-20.0, -15.0]) == a
    assert choose([a, b], [-20.0, -13.0]) == b
