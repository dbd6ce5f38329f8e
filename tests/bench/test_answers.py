"""Scoring of spoken replies: right, language, loops, markup; and the options of `voice bench answers`. No vLLM here."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import pytest

from voice.bench import answers
from voice.bench.replies import Candidate, Replies
from voice.bench.scoring import Question, Turn, _patterns, is_english, is_looping, judge, load_questions
from voice.config import DEFAULT_SYSTEM_PROMPT, Sampling
from voice.errors import VoiceError

PARIS = Turn("What is the capital of France?", _patterns([r"\bparis\b"]), _patterns([r"\blyon\b"]))
SUM = Turn("What is two plus two?", _patterns([r"\b(four|4)\b"]))


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("The capital of France is Paris.", True),
        ("PARIS!", True),
        ("The capital of France is Lyon, not Paris.", False),
        ("It is a parish.", False),
        ("", False),
        ("word " * 39 + "Paris and more", True),
        ("word " * 40 + "Paris", False),
    ],
)
def test_right_means_an_accepted_and_no_rejected_answer_early_on(reply: str, right: bool) -> None:
    assert judge(PARIS, reply).right is right


@pytest.mark.parametrize(
    ("reply", "english"),
    [
        ("The capital of France is Paris.", True),
        ("Paris.", True),
        ("", True),
        ("You say bonjour in French.", True),
        ("La Paz is the seat of government in Bolivia.", True),
        ("La capitale de la France est Paris.", False),
        ("L'Étoile, la Marseillaise! The capital of France is Paris.", False),
        ("Bonjour, c'est la vie.", False),
        ("El río es el Sena.", False),
        ("法国的首都是巴黎。", False),
    ],
)
def test_language(reply: str, english: bool) -> None:
    assert is_english(reply) is english


@pytest.mark.parametrize(
    ("reply", "looping"),
    [
        ("There are seven days in a week.", False),
        ("Yes. Yes. It is.", False),
        ("It is blue. It is blue.", True),
        ("no no no no", True),
        ("no no no", False),
        ("the city of light and the city of light and the city of light", True),
        ("the city of light and the city of light", False),
        ("", False),
    ],
)
def test_loops(reply: str, looping: bool) -> None:
    assert is_looping(reply) is looping


@pytest.mark.parametrize(
    ("reply", "plain"),
    [
        ("You need eggs, flour and milk.", True),
        ("It costs 3.5 pounds - or less.", True),
        ("1. Eggs\n2. Flour", False),
        ("You need:\n- eggs", False),
        ("It is **Paris**.", False),
        ("See https://example.org", False),
    ],
)
def test_markup(reply: str, plain: bool) -> None:
    assert judge(PARIS, reply).plain is plain


def test_a_good_reply_is_right_and_english_and_steady() -> None:
    assert judge(PARIS, "The capital of France is Paris.").good
    assert not judge(PARIS, "La capitale de la France est Paris.").good
    assert not judge(PARIS, "It is in Paris. It is in Paris.").good
    assert judge(PARIS, "The capital, it's Paris.").words == 4


def test_the_questions_file_is_sound() -> None:
    questions = load_questions()
    assert len(questions) >= 30
    assert len({question.id for question in questions}) == len(questions)
    first = questions[0]
    assert [turn.ask for turn in first.turns] == ["What is the capital of France?", "And which river runs through it?"]
    assert judge(first.turns[1], "The Seine runs through Paris.").good
    assert not any(judge(turn, "I don't know.").right for question in questions for turn in question.turns)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("conversation = 3", "is not a questions file"),
        ("not toml", "is not a questions file"),
        ("", "lacks 'conversation'"),
        ("conversation = []", "holds no questions"),
        ('[[conversation]]\nid = "a"\nturns = [{ ask = "b" }]', "lacks 'accept'"),
        ('[[conversation]]\nid = "a"\nturns = [{ ask = "b", accept = ["("] }]', "is not a questions file"),
        ('[[conversation]]\nid = "a"\nturns = [{ ask = "b", accept = "c" }]', "lists of regular expressions"),
    ],
)
def test_a_broken_questions_file_is_refused_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "questions.toml"
    path.write_text(content)
    with pytest.raises(VoiceError, match=message) as caught:
        load_questions(path)
    assert "\n" not in str(caught.value)


def test_a_missing_questions_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VoiceError, match="No such file"):
        load_questions(tmp_path / "none.toml")


def _scored() -> answers.Score:
    questions = [Question("france", (PARIS, SUM)), Question("sum", (SUM,))]
    texts = [["Paris.", "It is five."], ["- four"]]
    replies = Replies(texts, [[True, True], [False]], tokens=30, seconds=2.0)
    return answers.score("rtn", Candidate("Be brief.", Sampling(repetition_penalty=1.0)), questions, replies)


def test_score_counts_every_reply() -> None:
    result = _scored()
    assert (result.questions, result.good, result.right) == (3, 2, 2)
    assert (result.english, result.steady, result.plain, result.finished, result.short) == (3, 3, 2, 2, 3)
    assert result.mean_words == pytest.approx(5 / 3, abs=0.05)
    assert result.tokens_per_s == 15.0
    assert result.missed == ("france.2",)


def test_the_table_names_the_candidate() -> None:
    header, row = answers.table([_scored()]).splitlines()
    assert header.split()[0] == "score"
    assert row.split()[0] == "2/3"
    assert row.endswith("greedy rp=1.0     'Be brief.'")


def test_the_json_holds_every_candidate() -> None:
    text = answers.to_json(3, 36, [asdict(_scored()), asdict(_scored())])
    report = json.loads(text)
    assert report.keys() == {"machine", "questions", "batch", "candidates"}
    assert report["candidates"][1]["sampling"]["repetition_penalty"] == 1.0
    assert report["candidates"][0]["missed"] == ["france.2"]
    assert len(text.splitlines()) == 4


def test_sampling_and_model_options(tmp_path: Path) -> None:
    parsed = answers.parse_sampling("temperature=0.2,max_tokens=32")
    assert (parsed.temperature, parsed.max_tokens, parsed.top_p) == (0.2, 32, Sampling().top_p)
    for wrong in ("heat=1", "temperature=hot", "temperature"):
        with pytest.raises(VoiceError, match="NAME=NUMBER"):
            answers.parse_sampling(wrong)
    assert answers.parse_model(f"mine={tmp_path}") == ("mine", tmp_path)
    with pytest.raises(VoiceError, match="NAME=DIRECTORY"):
        answers.parse_model(str(tmp_path))


@pytest.mark.parametrize(
    ("options", "count", "first"),
    [
        ([], 1, DEFAULT_SYSTEM_PROMPT),
        (["--prompt", "none", "--prompt", "x", "--sampling", "top_p=0.5"], 2, None),
        (["--grid"], len(answers.PROMPTS) * len(answers.SAMPLINGS), None),
    ],
)
def test_candidates_come_from_the_options(options: list[str], count: int, first: str | None) -> None:
    parser = argparse.ArgumentParser()
    answers.add_arguments(parser)
    candidates = answers._candidates(parser.parse_args(options))
    assert (len(candidates), candidates[0].system) == (count, first)
