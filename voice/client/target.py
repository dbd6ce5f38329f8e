"""The options that say which server a command talks to: a running one, or one of its own."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager

from voice.client.address import realtime_url
from voice.config import DEFAULT_ASR, DEFAULT_LLM, DEFAULT_TTS
from voice.errors import ServiceError
from voice.options import positive

API_KEY_VARIABLE = "VOICE_API_KEY"

_ENGINE_OPTIONS = ("llm", "asr", "tts", "llm_url", "llm_api_key", "language", "threads")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --url, --api-key and the engine options of an own server."""
    group = parser.add_argument_group("which server")
    group.add_argument(
        "--url",
        metavar="URL",
        help="a running service, such as ws://127.0.0.1:8765 (default: start a server for this command)",
    )
    group.add_argument(
        "--api-key", metavar="KEY", help=f"key of the running service (default: ${API_KEY_VARIABLE}, if set)"
    )
    own = parser.add_argument_group("engines of a server of its own (without --url)")
    own.add_argument("--llm", metavar="MODEL", help=f"language model: name, path or hub name (default: {DEFAULT_LLM})")
    own.add_argument("--asr", metavar="MODEL", help=f"Whisper model (default: {DEFAULT_ASR})")
    own.add_argument("--tts", metavar="VOICE", help=f"Piper voice (default: {DEFAULT_TTS})")
    own.add_argument("--llm-url", metavar="URL", help="OpenAI-compatible server to use as the language model")
    own.add_argument("--llm-api-key", metavar="KEY", help="key for --llm-url")
    own.add_argument("--language", metavar="CODE", help="language of the speaker, or `auto` (default: en)")
    own.add_argument("--threads", metavar="N", type=positive, help="CPU threads an engine (default: the CPUs allowed)")
    own.add_argument("--offline", action="store_true", help="never use the network; models must be here already")


def check(args: argparse.Namespace) -> None:
    """Raises ServiceError for a bad --url and for options that cannot go together, before anything is started."""
    if args.url is None:
        return
    realtime_url(args.url)
    given = [f"--{name.replace('_', '-')}" for name in _ENGINE_OPTIONS if getattr(args, name) is not None]
    if given:
        raise ServiceError(f"{given[0]} is an option of a server of one's own: give it to that server, or drop --url")


def api_key(args: argparse.Namespace) -> str | None:
    """The key from the command line or the environment."""
    return args.api_key or os.environ.get(API_KEY_VARIABLE) or None


def serve_options(args: argparse.Namespace) -> list[str]:
    """The engine options as ``voice serve`` takes them."""
    options: list[str] = []
    for name in _ENGINE_OPTIONS:
        value = getattr(args, name)
        if value is not None:
            options += [f"--{name.replace('_', '-')}", str(value)]
    return [*options, "--offline"] if args.offline else options


@contextmanager
def server(args: argparse.Namespace) -> Iterator[str]:
    """The address of the running server, or of one that lives as long as the block."""
    from voice.client.server_process import ServerProcess

    check(args)
    if args.url is not None:
        yield args.url
        return
    with ServerProcess(serve_options(args)) as process:
        yield process.url
