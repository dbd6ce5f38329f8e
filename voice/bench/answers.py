"""`voice bench answers`: spoken-style questions with known answers, put to each recipe, system prompt and sampling.

It chose the default prompt, sampling and INT8 recipe of the small default model, and shows what they are worth beside
the same model in bf16. Each model runs in vLLM, in a process of its own, one after the other.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from voice.bench.replies import Candidate, Replies, ask
from voice.bench.scoring import QUESTIONS, SHORT_WORDS, Question, judge, load_questions
from voice.config import DEFAULT_SYSTEM_PROMPT, Sampling
from voice.errors import VoiceError
from voice.hardware import machine_name
from voice.quantization import RECIPES

SOURCE = "smollm2-135m-instruct"
"""The catalog's name of the weights that every recipe starts from."""

OWN_PROMPT = "none"
"""On the command line: no system message at all. The model's chat template may put in one of its own."""

PROMPTS: tuple[str | None, ...] = (
    None,
    "Answer in one short sentence.",
    "You are a helpful voice assistant. Answer in one or two short sentences.",
    "You are a voice assistant. Give short, correct answers.",
    "You are a knowledgeable voice assistant. Give short, correct answers.",
    "You are a voice assistant who knows facts. Give short, correct answers.",
    "You are a voice assistant who knows facts. Give short, correct answers in English.",
)
"""The system prompts of `--grid`."""

SAMPLINGS = (
    Sampling(temperature=0.0, top_p=1.0, repetition_penalty=1.0, max_tokens=64),
    Sampling(temperature=0.0, top_p=1.0, repetition_penalty=1.05, max_tokens=64),
    Sampling(temperature=0.0, top_p=1.0, repetition_penalty=1.1, max_tokens=64),
    Sampling(temperature=0.0, top_p=1.0, repetition_penalty=1.2, max_tokens=64),
    Sampling(temperature=0.2, top_p=0.9, repetition_penalty=1.05, max_tokens=64),
    Sampling(temperature=0.3, top_p=0.9, repetition_penalty=1.0, max_tokens=64),
)
"""The samplings of `--grid`."""


@dataclass(frozen=True, slots=True)
class Score:
    """What one model did under one prompt and sampling. Counts are of `questions` replies."""

    model: str
    system: str | None
    sampling: Sampling
    questions: int

    good: int
    """Right, in English and not looping: the score."""

    right: int
    english: int
    steady: int
    """Not looping."""

    plain: int
    """Without lists and markup."""

    finished: int
    """Ended by the model itself, before max_tokens."""

    short: int
    """Of at most `SHORT_WORDS` words."""

    mean_words: float
    seconds: float
    """For all replies, batched."""

    tokens_per_s: float
    missed: tuple[str, ...]
    """The replies that do not count as good: conversation, dot, number of the turn."""

    def rank(self) -> tuple[float, ...]:
        """Sorts the best candidate first: good replies, then replies that end by themselves, then fewer words."""
        return (-self.good, -self.finished, self.mean_words)


def score(model: str, candidate: Candidate, questions: Sequence[Question], replies: Replies) -> Score:
    """Judges every reply of one model under one candidate."""
    verdicts = [
        (f"{question.id}.{number}", judge(turn, text), done)
        for question, texts, finished in zip(questions, replies.texts, replies.finished, strict=True)
        for number, (turn, text, done) in enumerate(zip(question.turns, texts, finished, strict=True), start=1)
    ]
    judged = [verdict for _, verdict, _ in verdicts]
    return Score(
        model=model,
        system=candidate.system,
        sampling=candidate.sampling,
        questions=len(verdicts),
        good=sum(verdict.good for verdict in judged),
        right=sum(verdict.right for verdict in judged),
        english=sum(verdict.english for verdict in judged),
        steady=sum(verdict.steady for verdict in judged),
        plain=sum(verdict.plain for verdict in judged),
        finished=sum(done for _, _, done in verdicts),
        short=sum(verdict.words <= SHORT_WORDS for verdict in judged),
        mean_words=round(sum(verdict.words for verdict in judged) / len(judged), 1),
        seconds=replies.seconds,
        tokens_per_s=round(replies.tokens / max(replies.seconds, 1e-9), 1),
        missed=tuple(name for name, verdict, _ in verdicts if not verdict.good),
    )


def table(scores: Sequence[Score]) -> str:
    """The scores as text, best first."""
    header = (
        f"{'score':>7} {'right':>5} {'engl':>4} {'steady':>6} {'plain':>5} {'ended':>5} {'short':>5} {'words':>5} "
        f"{'s':>5} {'tok/s':>6}  {'model':<12} {'sampling':<17} system prompt"
    )
    return "\n".join([header, *(_row(item) for item in sorted(scores, key=Score.rank))])


def _row(item: Score) -> str:
    return (
        f"{item.good:>4}/{item.questions:<2} {item.right:>5} {item.english:>4} {item.steady:>6} {item.plain:>5} "
        f"{item.finished:>5} {item.short:>5} {item.mean_words:>5.1f} {item.seconds:>5.1f} {item.tokens_per_s:>6.0f}  "
        f"{item.model:<12} {describe(item.sampling):<17} {'(none sent)' if item.system is None else repr(item.system)}"
    )


def describe(sampling: Sampling) -> str:
    """A sampling in a few characters."""
    how = "greedy" if sampling.temperature == 0 else f"t={sampling.temperature} p={sampling.top_p}"
    return f"{how} rp={sampling.repetition_penalty}"


def parse_sampling(text: str) -> Sampling:
    """Reads "temperature=0.2,repetition_penalty=1.05"; what is not named keeps its default."""
    types = {name: type(value) for name, value in asdict(Sampling()).items()}
    values: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        try:
            values[name.strip()] = types[name.strip()](value)
        except (KeyError, ValueError) as error:
            raise VoiceError(f"--sampling {part!r}: write NAME=NUMBER with one of {', '.join(types)}") from error
    return Sampling(**values)


def parse_model(text: str) -> tuple[str, Path]:
    """Reads "NAME=DIRECTORY"."""
    name, separator, path = text.partition("=")
    if not separator or not name or not Path(path).is_dir():
        raise VoiceError(f"--model {text!r}: write NAME=DIRECTORY, with a Hugging Face model in the directory")
    return name, Path(path).absolute()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `voice bench answers`."""
    parser.add_argument(
        "--model",
        action="append",
        metavar="NAME=DIR",
        help="a model to ask (repeat); without it: every recipe is built",
    )
    parser.add_argument(
        "--recipe", action="append", choices=list(RECIPES), help="build only this recipe of the default model (repeat)"
    )
    parser.add_argument(
        "--prompt",
        action="append",
        metavar="TEXT",
        help=f"a system prompt (repeat; default: the service's own; {OWN_PROMPT!r} sends no system message)",
    )
    parser.add_argument(
        "--sampling",
        action="append",
        metavar="NAME=VALUE,..",
        help="a sampling (repeat; default: the service's own), as temperature=0.2,repetition_penalty=1.05",
    )
    parser.add_argument(
        "--grid", action="store_true", help="try every built-in prompt and sampling: takes an hour on 2 cores"
    )
    parser.add_argument(
        "--questions", type=Path, default=QUESTIONS, metavar="FILE", help="another questions file (TOML)"
    )
    parser.add_argument("--batch", type=int, default=36, help="replies written at once (default %(default)s)")
    parser.add_argument("--replies", action="store_true", help="put every reply into the JSON")
    parser.add_argument("--json", action="store_true", help="print one JSON object in place of the table")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the JSON to a file")


def run(args: argparse.Namespace) -> int:
    """Asks, scores, prints. Raises VoiceError for options, questions or models that do not work."""
    questions = load_questions(args.questions)
    candidates = _candidates(args)
    if args.batch < 1:
        raise VoiceError(f"--batch {args.batch}: at least one reply must be written at a time")
    scores: list[Score] = []
    entries: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="voice-answers-") as scratch:
        for name, path in _models(args, Path(scratch)):
            asked = [[turn.ask for turn in question.turns] for question in questions]
            answers = ask(path, candidates, asked, args.batch, _progress(name))
            for candidate, replies in zip(candidates, answers, strict=True):
                scores.append(score(name, candidate, questions, replies))
                said = {question.id: texts for question, texts in zip(questions, replies.texts, strict=True)}
                entries.append(asdict(scores[-1]) | ({"replies": said} if args.replies else {}))
    order = sorted(range(len(scores)), key=lambda index: scores[index].rank())
    text = to_json(scores[0].questions, args.batch, [entries[index] for index in order])
    if args.out is not None:
        try:
            args.out.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise VoiceError(f"cannot write {args.out} ({error.strerror}): name another file") from error
    print(text if args.json else table(scores))
    return 0


def to_json(questions: int, batch: int, candidates: Sequence[dict[str, Any]]) -> str:
    """The report as one JSON object, with one line for each candidate: easy to read and to compare."""
    head = {"machine": machine_name(), "questions": questions, "batch": batch}
    lines = ",\n".join(json.dumps(candidate, ensure_ascii=False) for candidate in candidates)
    return json.dumps(head, ensure_ascii=False)[:-1] + ', "candidates": [\n' + lines + "\n]}"


def _candidates(args: argparse.Namespace) -> list[Candidate]:
    prompts: list[str | None] = [None if text == OWN_PROMPT else text for text in args.prompt or []]
    samplings = [parse_sampling(text) for text in args.sampling or []]
    if args.grid:
        prompts, samplings = prompts or list(PROMPTS), samplings or list(SAMPLINGS)
    return [
        Candidate(system, sampling)
        for system in prompts or [DEFAULT_SYSTEM_PROMPT]
        for sampling in samplings or [Sampling()]
    ]


@contextmanager
def _built(recipe: str, scratch: Path) -> Iterator[Path]:
    """A recipe's directory, removed again when its replies are there."""
    import shutil

    from voice.quantization import build
    from voice.weights.store import Store

    source = Store().ensure(SOURCE, "gguf")
    target = scratch / recipe
    build(source, target, recipe, _progress(recipe))
    try:
        yield target
    finally:
        shutil.rmtree(target, ignore_errors=True)


def _models(args: argparse.Namespace, scratch: Path) -> Iterator[tuple[str, Path]]:
    if args.model:
        yield from [parse_model(text) for text in args.model]
    if args.recipe or not args.model:
        for recipe in args.recipe or RECIPES:
            with _built(recipe, scratch) as path:
                yield recipe, path


def _progress(name: str) -> Callable[[str], None]:
    return lambda line: print(f"{name}: {line}", file=sys.stderr, flush=True)
