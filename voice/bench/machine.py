"""The machine a benchmark ran on, in a few words."""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path


def describe_machine() -> str:
    """Processor and usable cores: "Intel(R) Xeon(R) Processor (model 167), 2 cores, Linux"."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{_processor()}, {cores} cores, {platform.system()}"


def _processor() -> str:
    facts: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            facts.setdefault(key.strip(), value.strip())
    name = " ".join(facts.get("model name", "").split()) or platform.processor() or platform.machine()
    # Virtual machines often hide the product's name; its model number tells what instructions it has.
    return f"{name} (model {facts['model']})" if "model" in facts else name
