"""`voice bench turn`: asks a set of spoken questions and says where the time of a turn goes.

Both clocks are taken on the client (see ``voice.client.recorder``); the stages are the server's own measurements.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from voice.bench.words import WordErrors, word_errors
from voice.client import target
from voice.errors import AudioFileError, ServiceError
from voice.timing import CLOCKS, STAGES

if TYPE_CHECKING:
    from voice.client.conversation import Question
    from voice.client.recorder import TurnReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("wavs", nargs="*", metavar="WAV", help="recorded questions")
    parser.add_argument(
        "--questions",
        metavar="FILE",
        help='JSON lines such as {"path": "q1.wav", "transcript": "What time is it?"}; paths are relative to the file, '
        "transcript and last_voiced_s (seconds) are optional",
    )
    parser.add_argument(
        "--conversation", action="store_true", help="ask everything in one session (default: a session a question)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object; progress goes to stderr")
    parser.add_argument("--out", metavar="FILE", help="write the JSON object to a file too")
    target.add_arguments(parser)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of the benchmark, with the words that were really said where they are known."""

    question: Question
    words: str | None


def run(args: argparse.Namespace) -> int:
    """Runs the benchmark; raises a VoiceError, one line, when a question cannot be read or is not answered."""
    target.check(args)
    asked = load_questions(args.wavs, args.questions)
    if args.out:
        _check_out(args.out)
    screen = sys.stderr if args.json else sys.stdout
    with target.server(args) as url:
        questions = [one.question for one in asked]
        reports = asyncio.run(_ask_all(url, target.api_key(args), questions, args.conversation, screen))
    result = summarize(asked, reports)
    result["mode"] = "one session" if args.conversation else "a session a question"
    if args.out:
        _write(args.out, json.dumps(result, indent=2) + "\n")
    _print(json.dumps(result) if args.json else as_table(result), sys.stdout)
    return 0


def _print(text: str, stream: TextIO) -> None:
    stream.write(f"{text}\n")
    stream.flush()


def load_questions(wavs: Sequence[str], manifest: str | None) -> list[Asked]:
    """Reads every question. Raises AudioFileError, one line, for the first that cannot be used."""
    from voice.client.conversation import Question

    asked = [Asked(Question.from_wav(path), None) for path in wavs]
    if manifest is not None:
        for path, words, last_voiced_s in _read_manifest(Path(manifest)):
            asked.append(Asked(Question.from_wav(str(path), last_voiced_s), words))
    if not asked:
        raise AudioFileError(
            "no questions: name WAV files or a manifest, for example `voice bench turn --questions questions.jsonl`"
        )
    return asked


def _read_manifest(manifest: Path) -> Iterable[tuple[Path, str | None, float | None]]:
    try:
        lines = manifest.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise AudioFileError(f"{manifest} does not exist: check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise AudioFileError(f"{manifest} cannot be read: {reason}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        wanted = f'{manifest}, line {number}: expected an object such as {{"path": "q1.wav", "transcript": "..."}}'
        try:
            entry = json.loads(line)
        except ValueError:
            raise AudioFileError(wanted) from None
        if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
            raise AudioFileError(wanted)
        last_voiced_s = entry.get("last_voiced_s")
        words = entry.get("transcript")
        yield (
            _find(manifest.parent, entry["path"]),
            words if isinstance(words, str) else None,
            float(last_voiced_s) if isinstance(last_voiced_s, (int, float)) else None,
        )


def _find(folder: Path, path: str) -> Path:
    """Paths are relative to the manifest's folder, or (collections with one manifest a subfolder) to the one above."""
    beside, above = folder / path, folder.parent / path
    return above if not beside.exists() and above.exists() else beside


async def _ask_all(
    url: str, key: str | None, questions: Sequence[Question], together: bool, screen: TextIO
) -> list[TurnReport]:
    from voice.client.conversation import Conversation
    from voice.client.realtime import RealtimeClient

    reports: list[TurnReport] = []

    def done(report: TurnReport) -> None:
        reports.append(report)
        name = Path(questions[len(reports) - 1].name).name
        clocks = f"{report.voice_to_voice_ms:.0f} ms voice-to-voice, {report.commit_to_audio_ms:.0f} ms commit-to-audio"
        _print(f"[{len(reports)}/{len(questions)}] {name}: {clocks}; {report.transcript} -> {report.reply}", screen)

    groups = [list(questions)] if together else [[question] for question in questions]
    for group in groups:
        async with await RealtimeClient.connect(url, api_key=key) as client:
            await Conversation(client, on_turn=done).run(group)
    return reports


def summarize(asked: Sequence[Asked], reports: Sequence[TurnReport]) -> dict[str, Any]:
    """The JSON object: percentiles (linear interpolation) in milliseconds, then what they were made of."""
    from voice import __version__
    from voice.hardware import machine_name

    if not reports:
        raise ServiceError("no question was answered")
    errors = [
        None if one.words is None else word_errors(one.words, report.transcript)
        for one, report in zip(asked, reports, strict=True)
    ]
    known = [error for error in errors if error is not None]
    total = sum(known, WordErrors(0, 0))
    return {
        "machine": machine_name(),
        "questions": len(reports),
        **{clock: _percentiles([getattr(report, clock) for report in reports]) for clock in CLOCKS},
        "stages": {name: _percentiles([report.stages[name] for report in reports]) for name in STAGES},
        "underruns": sum(report.underruns for report in reports),
        "word_error_rate": round(total.rate, 4) if known else None,
        "transcripts_right": sum(error.errors == 0 for error in known) if known else None,
        "transcripts_known": len(known),
        "split_questions": sum(report.segments > 1 for report in reports),
        "versions": {"voice": __version__, "python": platform.python_version()},
        "turns": [
            {
                "question": Path(one.question.name).name,
                "transcript": report.transcript,
                "word_errors": None if error is None else error.errors,
                "reply": report.reply,
                **{clock: getattr(report, clock) for clock in CLOCKS},
                "stages": report.stages,
                "underruns": report.underruns,
                "gap_ms": report.gap_ms,
                "segments": report.segments,
                "server": report.server,
            }
            for one, report, error in zip(asked, reports, errors, strict=True)
        ],
    }


def _percentiles(values: Sequence[float | None]) -> dict[str, float | None]:
    import numpy as np

    measured = [value for value in values if value is not None]
    if not measured:
        return {"p50": None, "p95": None}
    p50, p95 = np.percentile(measured, [50, 95])
    return {"p50": round(float(p50), 1), "p95": round(float(p95), 1)}


def as_table(result: dict[str, Any]) -> str:
    """The summary for people."""
    from voice.commands.ask import milliseconds, table

    named = [
        ("voice-to-voice", result["voice_to_voice_ms"]),
        ("commit-to-audio", result["commit_to_audio_ms"]),
        *((name.removesuffix("_ms").replace("_", " "), values) for name, values in result["stages"].items()),
    ]
    rows = [["", "p50", "p95"]]
    rows += [[name, milliseconds(values["p50"]), milliseconds(values["p95"])] for name, values in named]
    known = result["transcripts_known"]
    words = ""
    if known:
        words = f", word error rate {result['word_error_rate']:.1%}, {result['transcripts_right']} of {known} exact"
    counted = f"{result['questions']} questions, {result['underruns']} underruns{words}"
    split = f", {result['split_questions']} split by a pause" if result["split_questions"] else ""
    return f"\n{result['machine']}\n{counted}{split}\n\n{table(rows)}"


def _check_out(path: str) -> None:
    folder = Path(path).resolve().parent
    if Path(path).is_dir() or not folder.is_dir():
        raise ServiceError(f"{path} cannot be written: name a file in a folder that exists")


def _write(path: str, text: str) -> None:
    partial = Path(f"{path}.part")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise ServiceError(f"{path} cannot be written: {error.strerror or error}") from None
