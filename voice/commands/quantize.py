"""`voice quantize`: builds the INT8 language model again, or one from another model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from voice.config import DEFAULT_LLM
from voice.errors import ModelError
from voice.quantization import RECIPES
from voice.weights import Store


def add_parser(subparsers: Any) -> None:
    """Declares the command and its options."""
    recipes = "; ".join(f"{name}: {what}" for name, what in RECIPES.items()).replace("%", "%%")
    parser = subparsers.add_parser(
        "quantize",
        help="build the INT8 language model",
        description=(
            "Builds the language model that runs with INT8 weights and activations on a CPU. Normally this happens by "
            "itself when it is first needed. The old build stays usable until the new one is whole."
        ),
        epilog=f"Recipes: {recipes}.",
    )
    parser.add_argument(
        "name",
        nargs="?",
        default=DEFAULT_LLM,
        metavar="NAME",
        help=f"a built model of the catalog (default: {DEFAULT_LLM}); with --out also a GGUF file, the folder of a "
        "language model in Hugging Face layout, or a hub name org/repo",
    )
    parser.add_argument(
        "--recipe",
        choices=list(RECIPES),
        metavar="RECIPE",
        help=f"how the INT8 weights are found: {', '.join(RECIPES)} (default: the catalog's; rtn with --out)",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="a new folder for the result")
    parser.add_argument("--offline", action="store_true", help="never touch the network")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Builds, and prints where the result lies. Raises ModelError or ResourceError."""
    store = Store(offline=args.offline)
    if args.out is None:
        if args.name not in store.catalog.models:
            raise ModelError(f"{args.name} is not in the catalog: say with --out DIR where the result should go")
        print(store.rebuild(args.name, args.recipe))
        return 0
    print(store.build_into(args.out, args.name, args.recipe or "rtn", lambda line: print(line, file=sys.stderr)))
    return 0
