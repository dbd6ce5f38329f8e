from __future__ import annotations

import json
from pathlib import Path

import pytest

from voice import diagnosis
from voice.cli import main
from voice.diagnosis import Finding


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VOICE_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


def test_list(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"models in {models} (* belongs to the default set-up)"
    assert lines[2].split()[:6] == ["*", "whisper-base", "asr", "missing", "148", "MB"]


def test_list_as_json(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "list", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["directory"] == str(models)
    (vad,) = [one for one in answer["models"] if one["name"] == "silero-vad"]
    assert vad == {
        "name": "silero-vad",
        "kind": "vad",
        "state": "missing",
        "default": True,
        "bytes": 2327524,
        "path": str(models / "silero-vad" / "silero_vad.onnx"),
        "licence": "MIT",
        "description": "Silero VAD: is someone speaking in this 32 ms window?",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["models", "pull", "whisper", "--offline"], "voice: no model is called 'whisper'; `voice models list`"),
        (["models", "pull", "--offline"], "voice: the asr model whisper-base is not there and may not be fetched"),
        (["models", "verify", "silero-vad"], "voice: silero-vad is not complete, so it cannot be verified"),
        (["quantize", "silero-vad"], "voice: silero-vad is not built here; these are: smollm2-135m-instruct-w8a8"),
        (["quantize", "./none"], "voice: ./none is not in the catalog: say with --out DIR"),
        (["quantize", "./none", "--out", "x"], "none does not exist; give the folder of a language (llm) model"),
        (["quantize", "--offline"], "voice: the gguf model smollm2-135m-instruct is not there"),
    ],
)
def test_failures_are_one_line(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_verify_without_models(capsys: pytest.CaptureFixture[str], models: Path) -> None:
    assert main(["models", "verify"]) == 0
    assert capsys.readouterr().out == f"no models in {models}: fetch them with `voice models pull`\n"
    (models / "silero-vad").mkdir(parents=True)
    assert main(["models", "verify"]) == 2
    assert capsys.readouterr().out == "silero-vad: incomplete: run `voice models pull silero-vad`\n"


@pytest.mark.parametrize(("level", "code"), [("warning", 0), ("problem", 2)])
def test_doctors_exit_code(
    level: diagnosis.Level, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = [Finding("cpu", "good"), Finding("port 1", "taken", level, "stop it")]
    monkeypatch.setattr("voice.commands.doctor.examine", lambda store, port: findings)
    assert main(["doctor"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "  cpu     good",
        f"{'!' if code == 0 else 'X'} port 1  taken",
        "          -> stop it",
    ]
    assert main(["doctor", "--json"]) == code
    answer = json.loads(capsys.readouterr().out)
    assert answer["can_run"] == (code == 0)
    assert answer["findings"][1] == {"topic": "port 1", "found": "taken", "level": level, "advice": "stop it"}
