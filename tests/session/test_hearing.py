"""Close readings are settled by the LLM; clear ones are left alone."""

from __future__ import annotations

import numpy as np
import pytest

from voice.engines.asr import Hypothesis, Transcript
from voice.session.hearing import choose, close_readings, hear
from voice.testing import ScriptedLanguageModel, ScriptedRecognizer, run_virtual, scripted_engines

FRIENDS = Hypothesis("What is the capital of friends?", -0.8)
FRANCE = Hypothesis("What is the capital of France?", -1.2)
FRANCS = Hypothesis("What is the capital of francs?", -5.8)
HEARD = Transcript(FRIENDS.text, "en", log_probability=-0.8, alternatives=(FRANCE, FRANCS))
LIKELIHOODS = {FRIENDS.text: -30.4, FRANCE.text: -15.3, FRANCS.text: -1.0}


def heard_with(llm: ScriptedLanguageModel, transcript: Transcript = HEARD) -> str:
    engines = scripted_engines(asr=ScriptedRecognizer([transcript]), llm=llm)
    return run_virtual(hear(engines, np.zeros(16000, dtype=np.float32), "en", None))


def test_only_close_readings_are_asked_about() -> None:
    assert close_readings(HEARD) == [FRIENDS, FRANCE]
    assert close_readings(Transcript("Yes.", "en")) == [Hypothesis("Yes.", 0.0)]


def test_the_llm_settles_what_sounds_alike() -> None:
    assert heard_with(ScriptedLanguageModel(likelihoods=LIKELIHOODS)) == FRANCE.text


def test_a_llm_without_an_opinion_leaves_the_recogniser_its_own() -> None:
    assert heard_with(ScriptedLanguageModel()) == FRIENDS.text


def test_a_llm_that_fails_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(self: ScriptedLanguageModel, texts: object) -> None:
        raise RuntimeError("no logprobs")

    monkeypatch.setattr(ScriptedLanguageModel, "score", fail)
    assert heard_with(ScriptedLanguageModel()) == FRIENDS.text


def test_sound_outweighs_a_slightly_likelier_sentence() -> None:
    assert choose([Hypothesis("a", -0.5), Hypothesis("b", -1.5)], [-20.0, -15.0]) == "a"
    assert choose([Hypothesis("a", -0.5), Hypothesis("b", -1.5)], [-20.0, -13.0]) == "b"
