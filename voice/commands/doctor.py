"""`voice doctor`: what was found on this machine, and what to do about what is missing."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from voice.config import DEFAULT_PORT
from voice.diagnosis import can_run, examine
from voice.weights import Store

MARKS = {"ok": " ", "warning": "!", "problem": "X"}


def add_parser(subparsers: Any) -> None:
    """Declares the command and its options."""
    parser = subparsers.add_parser(
        "doctor",
        help="check this machine, and say what to do about what is missing",
        description=(
            "Looks at the processor, GPU, memory, disk, packages, models, port and audio devices. Exit code 0: the "
            "service can run (there may be warnings); 2: something stands in its way."
        ),
    )
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="the port to look at (default: %(default)s)")
    parser.add_argument("--offline", action="store_true", help="count missing models as problems: no network later")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the findings. Returns 0 if the service can run, else 2."""
    findings = examine(Store(offline=args.offline), args.port)
    ready = can_run(findings)
    if args.json:
        print(json.dumps({"can_run": ready, "findings": [dataclasses.asdict(one) for one in findings]}, indent=1))
        return 0 if ready else 2
    width = max(len(one.topic) for one in findings)
    for one in findings:
        print(f"{MARKS[one.level]} {one.topic.ljust(width)}  {one.found}")
        if one.advice:
            print(f"  {' ' * width}  -> {one.advice}")
    print("the service can run" if ready else "the service cannot run yet: see the lines marked X")
    return 0 if ready else 2
