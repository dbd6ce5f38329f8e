"""`voice bench turn` against a scripted server on loopback."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pytest

from voice.audio import write_wav
from voice.bench import turn
from voice.client.conversation import Question
from voice.client.recorder import TurnReport
from voice.client.testing import LATENCY, ScriptedServer, ScriptedTurn, tone
from voice.errors import AudioFileError, ServiceError


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voice.hardware.machine_name", lambda: "a test machine, 2 CPUs")


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """A manifest of two questions."""
    for name in ("q1.wav", "q2.wav"):
        write_wav(tmp_path / name, tone(0.2, rate_hz=16000), 16000)
    lines = [
        {"path": "q1.wav", "transcript": "What is the capital of France?", "last_voiced_s": 0.15},
        {"path": "q2.wav", "transcript": "And the river there?"},
    ]
    manifest = tmp_path / "questions.jsonl"
    manifest.write_text("\n\n".join(json.dumps(line) for line in lines) + "\n")
    return manifest


TURNS = [ScriptedTurn(), ScriptedTurn("And the river?", "The Seine.", latency={**LATENCY, "asr_final_ms": 200})]


def bench(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    turn.add_arguments(parser)
    return turn.run(parser.parse_args(argv))


def test_json(questions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "result.json"
    with ScriptedServer(TURNS).in_thread() as server:
        argv = ["--questions", str(questions), "--url", server.url, "--json", "--conversation", "--out", str(out)]
        assert bench(*argv) == 0
        assert len(server.sessions) == 1
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert list(result)[:6] == [
        "machine", "questions", "voice_to_voice_ms", "commit_to_audio_ms", "stages", "underruns",
    ]  # fmt: skip
    assert result["machine"] == "a test machine, 2 CPUs"
    assert result["questions"] == 2
    assert set(result["voice_to_voice_ms"]) == {"p50", "p95"}
    assert result["stages"]["asr_final_ms"] == {"p50": 190.0, "p95": 199.0}
    assert result["stages"]["tts_first_audio_ms"] == {"p50": 70.0, "p95": 70.0}
    assert result["word_error_rate"] == 0.1
    assert (result["transcripts_right"], result["transcripts_known"]) == (1, 2)
    assert [one["question"] for one in result["turns"]] == ["q1.wav", "q2.wav"]
    assert json.loads(out.read_text()) == result
    assert "[2/2] q2.wav" in captured.err


def test_a_session_a_question_and_a_table(questions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wavs = [str(questions.with_name(name)) for name in ("q1.wav", "q2.wav")]
    with ScriptedServer(TURNS).in_thread() as server:
        assert bench(*wavs, "--url", server.url) == 0
        assert len(server.sessions) == 2
    printed = capsys.readouterr().out
    assert "a test machine, 2 CPUs\n2 questions, 0 underruns\n" in printed
    assert "asr final" in printed and "180 ms" in printed


def test_failures_are_one_line(questions: Path, tmp_path: Path) -> None:
    with pytest.raises(AudioFileError, match="no questions: name WAV files or a manifest, for example"):
        bench("--url", "ws://127.0.0.1:9")
    with pytest.raises(AudioFileError, match="does not exist"):
        bench("--questions", str(tmp_path / "none.jsonl"))
    with pytest.raises(ServiceError, match="folder that exists"):
        bench("--questions", str(questions), "--out", str(tmp_path / "no" / "x.json"))
    with pytest.raises(ServiceError, match="nothing is listening"):
        bench("--questions", str(questions), "--url", "ws://127.0.0.1:9")
    for line in ("not json", "[]", '{"file": "x"}'):
        bad = tmp_path / "bad.jsonl"
        bad.write_text(f"\n{line}\n")
        with pytest.raises(AudioFileError, match=r"bad\.jsonl, line 2: expected an object"):
            bench("--questions", str(bad))


def test_last_voiced_and_paths_above(questions: Path, tmp_path: Path) -> None:
    below = tmp_path / "set"
    below.mkdir()
    (below / "manifest.jsonl").write_text('{"path": "q1.wav", "last_voiced_s": 0.1}\n')
    (asked,) = turn.load_questions([], str(below / "manifest.jsonl"))
    assert asked.question.last_voiced == 2400
    assert asked.words is None


def report(voice_to_voice_ms: float, stage: float | None) -> TurnReport:
    stages: dict[str, float | None] = dict.fromkeys(
        ("asr_final_ms", "llm_first_token_ms", "llm_first_clause_ms", "tts_first_audio_ms"), stage
    )
    return TurnReport("a", "b", voice_to_voice_ms, 1.0, stages, {}, np.zeros(1, np.int16), 1, 20.0, 2)


def test_percentiles_interpolate_and_skip_what_was_not_measured() -> None:
    asked = [turn.Asked(Question("q.wav", np.zeros(1, np.int16), 0), None)] * 3
    result = turn.summarize(asked, [report(100, None), report(200, 10), report(400, 20)])
    assert result["voice_to_voice_ms"] == {"p50": 200.0, "p95": 380.0}
    assert result["stages"]["asr_final_ms"] == {"p50": 15.0, "p95": 19.5}
    assert result["underruns"] == 3 and result["split_questions"] == 3
    assert result["word_error_rate"] is None
    nothing = turn.summarize(asked[:1], [report(100, None)])
    assert nothing["stages"]["asr_final_ms"] == {"p50": None, "p95": None}
    assert "-" in turn.as_table(nothing)
