"""`voice ask`: streams recorded questions to the service in real time and shows what comes back, and how fast."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from voice.client import target

if TYPE_CHECKING:
    from voice.client.conversation import Question
    from voice.client.recorder import TurnReport

_GAP_MS = 250
"""Silence between two replies in the written file."""

_COLUMNS = (
    ("voice-to-voice", "voice_to_voice_ms"),
    ("commit-to-audio", "commit_to_audio_ms"),
    ("ASR final", "asr_final_ms"),
    ("LLM first token", "llm_first_token_ms"),
    ("LLM first clause", "llm_first_clause_ms"),
    ("TTS first audio", "tts_first_audio_ms"),
)


def add_parser(subparsers: Any) -> None:
    """Declares the command."""
    parser = subparsers.add_parser(
        "ask",
        help="ask recorded questions and hear the answers",
        description="Streams WAV files to the service in real time, as a microphone would; several files make one "
        "conversation. Shows the transcript and the reply as they come, then where the time went.",
    )
    parser.add_argument("wavs", nargs="+", metavar="WAV", help="a recorded question: any rate, width, channel count")
    parser.add_argument("--out", default="reply.wav", metavar="FILE", help="where the spoken replies go (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead; progress goes to stderr")
    target.add_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Everything that can be checked is checked before a server is started or asked."""
    from voice.audio.wav import check_writable, write_wav
    from voice.client.conversation import Question
    from voice.client.realtime import WIRE_HZ

    target.check(args)
    questions = [Question.from_wav(path) for path in args.wavs]
    check_writable(args.out)
    screen = sys.stderr if args.json else sys.stdout
    with target.server(args) as url:
        reports = asyncio.run(_converse(url, target.api_key(args), questions, screen))
    spoken = _joined(reports)
    write_wav(args.out, spoken, WIRE_HZ)
    if args.json:
        print(json.dumps({"turns": [_turn_json(report) for report in reports], "reply_wav": str(args.out)}))
    else:
        print(f"\n{timing_table(reports)}\nwrote {args.out} ({spoken.size / WIRE_HZ:.1f} s)")
    return 0


async def _converse(url: str, key: str | None, questions: Sequence[Question], screen: TextIO) -> list[TurnReport]:
    from voice.client.conversation import Conversation
    from voice.client.realtime import RealtimeClient

    printer = EventPrinter(screen)
    try:
        async with await RealtimeClient.connect(url, api_key=key) as client:
            return await Conversation(client, on_event=printer.show).run(questions)
    finally:
        printer.end_line()


class EventPrinter:
    """Writes transcript and reply to a stream as their words arrive, one line each."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._line = ""
        """What the open line belongs to: a speaker and an id."""

        self._written: dict[str, str] = {}

    def show(self, event: dict[str, Any]) -> None:
        """Shows one server event, if it has words."""
        kind = str(event.get("type"))
        if kind.endswith("input_audio_transcription.delta"):
            self._write("you", str(event.get("item_id")), str(event.get("delta") or ""))
        elif kind.endswith("input_audio_transcription.completed"):
            item = str(event.get("item_id"))
            final = str(event.get("transcript") or "").strip()
            written = self._written.get(f"you {item}", "").strip()
            if final != written:
                rest = final.removeprefix(written)
                if rest == final or self._line != f"you {item}":  # the final says something else: say it anew
                    self.end_line()
                    rest = final
                self._write("you", item, rest)
            self.end_line()
        elif kind in ("response.output_audio_transcript.delta", "response.output_text.delta"):
            self._write("assistant", str(event.get("response_id")), str(event.get("delta") or ""))
        elif kind == "response.done":
            if (event.get("response") or {}).get("status") == "cancelled" and self._line.startswith("assistant"):
                self._stream.write(" … (interrupted)")
            self.end_line()

    def _write(self, speaker: str, identity: str, words: str) -> None:
        line = f"{speaker} {identity}"
        if self._line != line:
            self.end_line()
            self._stream.write(f"{speaker + ':':<11}")
            self._line = line
            words = words.lstrip()
        self._stream.write(words)
        self._stream.flush()
        self._written[line] = self._written.get(line, "") + words

    def end_line(self) -> None:
        """Ends the open line, if there is one."""
        if self._line:
            self._stream.write("\n")
            self._stream.flush()
            self._line = ""


def _joined(reports: Sequence[TurnReport]) -> Any:
    import numpy as np

    from voice.client.realtime import WIRE_HZ

    gap = np.zeros(WIRE_HZ * _GAP_MS // 1000, dtype=np.int16)
    parts = [part for report in reports for part in (gap, report.audio)]
    return np.concatenate(parts[1:])


def _turn_json(report: TurnReport) -> dict[str, Any]:
    return {
        "transcript": report.transcript,
        "reply": report.reply,
        "voice_to_voice_ms": report.voice_to_voice_ms,
        "commit_to_audio_ms": report.commit_to_audio_ms,
        "stages": report.stages,
    }


def timing_table(reports: Sequence[TurnReport]) -> str:
    """Both clocks and the stages of each turn, in milliseconds, as text."""
    rows = [["turn", *(title for title, _ in _COLUMNS), "underruns"]]
    for number, report in enumerate(reports, start=1):
        values = {**_turn_json(report), **report.stages}
        cells = [milliseconds(values[name]) for _, name in _COLUMNS]
        rows.append([str(number), *cells, str(report.underruns)])
    return table(rows)


def milliseconds(value: float | None) -> str:
    """A cell: whole milliseconds, or a dash where nothing was measured."""
    return "-" if value is None else f"{value:.0f} ms"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned text, the first column to the left and the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
