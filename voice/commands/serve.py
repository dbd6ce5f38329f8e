"""``voice serve``: the service."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from dataclasses import fields
from typing import Any

from voice.config import Config, EngineConfig, Sampling, ServerConfig
from voice.options import not_negative, port, positive

DEFAULTS = Config()


def add_parser(subparsers: Any) -> None:
    """Declares the subcommand."""
    parser = subparsers.add_parser(
        "serve",
        help="start the service",
        description="Starts the voice service: a WebSocket at /v1/realtime that speaks the OpenAI Realtime protocol, "
        "with /healthz, /readyz and /metrics on the same port. Models that are missing are downloaded and built first. "
        "It prints `ready URL` once every engine has run.",
    )
    server = parser.add_argument_group("where it listens")
    server.add_argument("--host", default=DEFAULTS.server.host, help="address to listen on (default: %(default)s)")
    server.add_argument(
        "--port", type=port, default=DEFAULTS.server.port, help="port; 0 takes a free one (default: %(default)s)"
    )
    add_engine_options(parser)
    parser.set_defaults(run=run)


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """The options that choose and size the engines; shared by every command that starts them."""
    engines = DEFAULTS.engines
    models = parser.add_argument_group(
        "models", "each a name of `voice models list`, a path, or a hub name such as Systran/faster-whisper-small"
    )
    models.add_argument("--llm", default=engines.llm, metavar="MODEL", help="language model (default: %(default)s)")
    models.add_argument("--asr", default=engines.asr, metavar="MODEL", help="Whisper model (default: %(default)s)")
    models.add_argument("--tts", default=engines.tts, metavar="VOICE", help="Piper voice (default: %(default)s)")
    models.add_argument(
        "--llm-url",
        metavar="URL",
        help="use the OpenAI-compatible server at URL (ending in /v1) in place of an LLM here; --llm names its model",
    )
    models.add_argument("--llm-api-key", metavar="KEY", help="key for --llm-url")
    models.add_argument(
        "--language", default=engines.language, help="language of the users, or `auto` (default: %(default)s)"
    )
    models.add_argument("--offline", action="store_true", help="never use the network; a missing model is an error")
    behaviour = parser.add_argument_group("replies")
    behaviour.add_argument(
        "--system-prompt", default=DEFAULTS.system_prompt, metavar="TEXT", help="default instructions"
    )
    behaviour.add_argument(
        "--temperature",
        type=not_negative,
        default=DEFAULTS.sampling.temperature,
        help="0 is greedy (default: %(default)s)",
    )
    behaviour.add_argument(
        "--max-tokens",
        type=positive,
        default=DEFAULTS.sampling.max_tokens,
        help="longest reply, tokens (default: %(default)s)",
    )
    sizes = parser.add_argument_group("resources")
    sizes.add_argument(
        "--threads", type=positive, help="CPU threads of an engine (default: the CPUs this process may use)"
    )
    sizes.add_argument(
        "--max-sessions",
        type=positive,
        default=engines.max_sessions,
        help="most clients at once, also the LLM's largest batch (default: %(default)s)",
    )
    sizes.add_argument(
        "--kv-cache-gib",
        type=not_negative,
        default=engines.kv_cache_gib,
        help="KV cache of the LLM on a CPU, GiB (default: %(default)s)",
    )
    sizes.add_argument(
        "--max-model-len",
        type=positive,
        default=engines.max_model_len,
        help="longest prompt plus reply, tokens (default: %(default)s)",
    )
    sizes.add_argument(
        "--gpu-memory-utilization",
        type=not_negative,
        default=engines.gpu_memory_utilization,
        help="share of the GPU's memory for the LLM (default: %(default)s)",
    )
    sizes.add_argument("--llm-compile", action="store_true", help="compile the LLM: slower start, faster tokens")


def config_from(args: argparse.Namespace) -> Config:
    """The configuration that the options of :func:`add_engine_options` (and ``serve``) say."""
    given = vars(args)
    engine_options = {field.name: given[field.name] for field in fields(EngineConfig) if field.name in given}
    if engine_options.get("language") == "auto":
        engine_options["language"] = None
    server_options = {name: given[name] for name in ("host", "port") if name in given}
    sampling = Sampling(
        temperature=args.temperature,
        top_p=DEFAULTS.sampling.top_p,
        repetition_penalty=DEFAULTS.sampling.repetition_penalty,
        max_tokens=args.max_tokens,
    )
    return Config(
        engines=EngineConfig(**engine_options),
        server=ServerConfig(**server_options),
        sampling=sampling,
        system_prompt=args.system_prompt,
    )


def run(args: argparse.Namespace) -> int:
    """Serves until interrupted."""
    from voice.engines.bundle import find_models
    from voice.server.app import bind, run_service

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    config = config_from(args)
    listener = bind(config.server)  # a taken port is known at once, not after the downloads
    models = find_models(config.engines, offline=args.offline)

    def report(line: str) -> None:
        print(f"voice: {line}", file=sys.stderr, flush=True)

    def on_ready(url: str, seconds: float) -> None:
        report(f"ready after {seconds:.0f} s; try: voice ask question.wav --url {url}")
        print(f"ready {url}", flush=True)

    runner = asyncio.Runner(loop_factory=_loop_factory())
    with runner:
        runner.run(run_service(config, listener, models, report, on_ready))
    return 0


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:  # Windows has none
        return None
    return uvloop.new_event_loop
