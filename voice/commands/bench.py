"""``voice bench``: the measurements behind every claim. Each benchmark is a module of ``voice.bench``."""

from __future__ import annotations

from typing import Any

from voice.bench import answers, asr, turn


def add_parser(subparsers: Any) -> None:
    """Declares the subcommand."""
    parser = subparsers.add_parser(
        "bench",
        help="measure the service",
        description="Measurements of the service; each prints a table, or one JSON object with --json.",
    )
    benchmarks = parser.add_subparsers(dest="benchmark", required=True, metavar="BENCHMARK")
    turn_parser = benchmarks.add_parser(
        "turn",
        help="where the time of a turn goes",
        description="Asks spoken questions and prints p50 and p95 of voice-to-voice, commit-to-audio and each stage.",
    )
    turn.add_arguments(turn_parser)
    turn_parser.set_defaults(run=turn.run)
    answers_parser = benchmarks.add_parser(
        "answers",
        help="how good the LLM's spoken answers are",
        description="Asks about 30 spoken-style questions with known answers under each candidate recipe, prompt and "
        "sampling, and prints the scores beside bf16's.",
    )
    answers.add_arguments(answers_parser)
    answers_parser.set_defaults(run=answers.run)
    asr_parser = benchmarks.add_parser(
        "asr",
        help="how well and how fast speech is recognised",
        description="Streams recordings to the recogniser and prints word error rates, latencies and compute.",
    )
    asr.add_arguments(asr_parser)
    asr_parser.set_defaults(run=asr.run)
