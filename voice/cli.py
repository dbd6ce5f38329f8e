"""The ``voice`` command: parses options, runs a subcommand, and turns expected failures into one line and exit code 2.

Each subcommand is a module of ``voice.commands`` with ``add_parser(subparsers)`` and ``run(args) -> int``. Engines and
other heavy packages are imported inside ``run``, so that ``voice --help`` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from voice import __version__
from voice.commands import ask, bench, doctor, models, quantize, serve, talk
from voice.errors import VoiceError

COMMANDS = (serve, ask, talk, models, quantize, bench, doctor)

EXIT_FAILED = 2
EXIT_INTERRUPTED = 130


class OneLineParser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line: what is wrong, and where help is."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_FAILED, f"voice: {message} (see `{self.prog} --help`)\n")


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = OneLineParser(
        prog="voice",
        description="A low-latency voice assistant service: Whisper, a quantized LLM and Piper behind one WebSocket.",
    )
    parser.add_argument("--version", action="version", version=f"voice {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=OneLineParser)
    for command in COMMANDS:
        command.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line and returns the exit code: 0 done, 2 failed with a message, 130 interrupted."""
    args = build_parser().parse_args(argv)
    try:
        return int(args.run(args))
    except VoiceError as error:
        print(f"voice: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output (head, a closed pager) has gone. Point stdout elsewhere so that the
        # interpreter's own flush at exit does not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def entry() -> NoReturn:
    """The console script."""
    raise SystemExit(main())
