"""`voice models`: which models there are, fetching them, and checking the files on disk."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from voice.weights import Status, Store
from voice.weights.catalog import KINDS

STATE_NOTES = {"present": "", "missing": "", "incomplete": "an interrupted or damaged download; pull goes on with it"}


def add_parser(subparsers: Any) -> None:
    """Declares the command and its options."""
    parser = subparsers.add_parser(
        "models",
        help="list, fetch and check the models",
        description=(
            "The models that have names. Weights are kept in models/ of the source tree, or ~/.cache/voice/models; "
            "the environment variable VOICE_MODELS chooses another folder."
        ),
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="what there is, and what of it is on disk")
    listing.add_argument("--json", action="store_true", help="print one JSON object")
    pull = actions.add_parser(
        "pull",
        help="fetch (and build) models; what is there already is kept",
        description=(
            "Fetches models, checks their sha256 and builds the quantized ones. An interrupted pull goes on where it "
            "stopped. Without names: everything the default set-up needs."
        ),
    )
    pull.add_argument(
        "names", nargs="*", metavar="NAME", help="a name from `voice models list`, or with --kind org/repo"
    )
    pull.add_argument("--all", action="store_true", help="every model of the catalog, also the large ones for GPUs")
    pull.add_argument("--kind", choices=[kind for kind in KINDS if kind != "gguf"], help="what a hub name is")
    verify = actions.add_parser(
        "verify",
        help="read all files again and compare their sha256",
        description="Reads all files again and compares their sha256. Without names: every model that is on disk.",
    )
    verify.add_argument("names", nargs="*", metavar="NAME", help="a name from `voice models list`")
    for action in (listing, pull, verify):
        action.add_argument("--offline", action="store_true", help="never touch the network")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs one action. Returns 0, or 2 if `verify` found damaged files."""
    store = Store(offline=args.offline)
    if args.action == "list":
        return _list(store, as_json=args.json)
    if args.action == "pull":
        return _pull(store, args)
    return _verify(store, args.names)


def _list(store: Store, *, as_json: bool) -> int:
    statuses = [store.status(name) for name in store.catalog.models]
    if as_json:
        print(json.dumps({"directory": str(store.root), "models": [_as_dict(status) for status in statuses]}, indent=1))
        return 0
    print(f"models in {store.root} (* belongs to the default set-up)")
    rows = [
        (
            f"{'*' if status.model.default else ' '} {status.model.name}",
            status.model.kind,
            status.state,
            _size(status.size),
            status.model.licence,
            status.model.description,
        )
        for status in statuses
    ]
    _table([("  NAME", "KIND", "STATE", "SIZE", "LICENCE", "WHAT"), *rows])
    notes = {note for status in statuses if (note := STATE_NOTES[status.state])}
    for note in sorted(notes):
        print(f"incomplete: {note}")
    return 0


def _pull(store: Store, args: argparse.Namespace) -> int:
    models = store.catalog.models.values() if args.all else store.catalog.defaults()
    for name in args.names or [model.name for model in models]:
        print(f"{name}: {store.pull(name, args.kind)}")
    return 0


def _verify(store: Store, names: Sequence[str]) -> int:
    chosen = names or [name for name in store.catalog.models if store.status(name).state != "missing"]
    if not chosen:
        print(f"no models in {store.root}: fetch them with `voice models pull`")
    code = 0
    for name in chosen:
        if not names and store.status(name).state == "incomplete":
            print(f"{name}: incomplete: run `voice models pull {name}`")
            code = 2
            continue
        bad = store.verify(name)
        if bad:
            print(f"{name}: damaged: {', '.join(bad)}: run `voice models pull {name}`")
            code = 2
        else:
            print(f"{name}: ok")
    return code


def _as_dict(status: Status) -> dict[str, Any]:
    model = status.model
    return {
        "name": model.name,
        "kind": model.kind,
        "state": status.state,
        "default": model.default,
        "bytes": status.size,
        "path": str(status.path),
        "licence": model.licence,
        "description": model.description,
    }


def _size(size: int | None) -> str:
    if size is None:
        return "-"
    return f"{size / 1e6:.0f} MB" if size >= 10_000_000 else f"{size / 1e6:.1f} MB"


def _table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
