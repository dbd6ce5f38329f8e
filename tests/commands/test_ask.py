"""`voice ask` from the command line, against a scripted server on loopback."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voice.audio import float_to_pcm16, read_wav, write_wav
from voice.cli import main
from voice.client.testing import ScriptedServer, ScriptedTurn, tone
from voice.commands.ask import EventPrinter, table

STT = "conversation.item.input_audio_transcription"


def served(turns: Sequence[ScriptedTurn] = (), **options: Any) -> AbstractContextManager[ScriptedServer]:
    return ScriptedServer(turns, **options).in_thread()


@pytest.fixture
def wav(tmp_path: Path) -> str:
    path = tmp_path / "question.wav"
    write_wav(path, tone(0.2, rate_hz=16000), 16000)
    return str(path)


def test_json_is_one_object_with_every_field(wav: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "answer.wav"
    turns = [ScriptedTurn(), ScriptedTurn("And the river?", "The Seine.", tone(0.1))]
    with served(turns) as server:
        assert main(["ask", wav, wav, "--url", server.url, "--json", "--out", str(out)]) == 0
        assert len(server.sessions) == 1  # one conversation
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert list(result) == ["turns", "reply_wav"]
    assert result["reply_wav"] == str(out)
    first, second = result["turns"]
    assert list(first) == ["transcript", "reply", "voice_to_voice_ms", "commit_to_audio_ms", "stages"]
    assert first["transcript"] == "What is the capital of France?"
    assert first["reply"] == "The capital of France is Paris."
    assert second["reply"] == "The Seine."
    assert first["voice_to_voice_ms"] > 0 and first["commit_to_audio_ms"] >= 0
    assert first["stages"] == {
        "asr_final_ms": 180,
        "llm_first_token_ms": 60,
        "llm_first_clause_ms": 120,
        "tts_first_audio_ms": 70,
    }
    samples, rate_hz = read_wav(out)
    assert rate_hz == 24000
    expected = np.concatenate([tone(0.3), np.zeros(6000, np.int16), tone(0.1)])
    assert np.array_equal(float_to_pcm16(samples), expected)
    assert "you:       What is the capital of France?\n" in captured.err


def test_people_see_transcript_reply_and_table(wav: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "answer.wav"
    with served([ScriptedTurn()]) as server:
        assert main(["ask", wav, "--url", server.url.replace("ws:", "http:") + "/v1/realtime", "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "you:       What is the capital of France?"
    assert lines[1] == "assistant: The capital of France is Paris."
    assert lines[3].split("  ")[0] == "turn"
    for title in ("voice-to-voice", "commit-to-audio", "ASR final", "LLM first token", "underruns"):
        assert title in lines[3]
    assert "180 ms" in lines[4] and "70 ms" in lines[4]
    assert lines[-1] == f"wrote {out} (0.3 s)"


def failure(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["ask", *argv]) == 2
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert lines and lines[-1].startswith("voice: ")
    assert "Traceback" not in captured.err
    assert captured.out == "" or "--json" not in argv
    return lines[-1]


def test_bad_files_fail_before_anything_starts(wav: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.wav"
    text.write_text("not sound")
    cut = tmp_path / "cut.wav"
    cut.write_bytes(Path(wav).read_bytes()[:-1000])
    silent = tmp_path / "silent.wav"
    write_wav(silent, np.zeros(16000, np.int16), 16000)
    with served() as server:
        for path, words in (
            (str(tmp_path / "missing.wav"), "does not exist"),
            (str(text), "it looks like text"),
            (str(cut), "is truncated"),
            (str(silent), "is silent"),
        ):
            assert words in failure(capsys, wav, path, "--url", server.url, "--json")
        assert "folder does not exist" in failure(capsys, wav, "--url", server.url, "--out", str(tmp_path / "no" / "a"))
        assert server.headers == []


def test_servers_that_refuse(wav: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "a.wav")
    assert "nothing is listening" in failure(capsys, wav, "--url", "ws://127.0.0.1:9", "--out", out)
    assert "is not the address" in failure(capsys, wav, "--url", "mail:x", "--out", out)
    with served(refuse=(503, '{"reason": "warming up the LLM"}')) as server:
        assert "cannot serve now (503): warming up the LLM" in failure(
            capsys, wav, "--url", server.url, "--out", out, "--json"
        )
    with served([ScriptedTurn(error="the ASR failed")]) as server:
        assert "the ASR failed" in failure(capsys, wav, "--url", server.url, "--out", out, "--json")
    with served(drop_after=5) as server:
        assert "code 1011" in failure(capsys, wav, "--url", server.url, "--out", out, "--json")
    assert not Path(out).exists()


def test_options_of_an_own_server_do_not_go_with_url(wav: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--llm is an option of a server of one's own" in failure(capsys, wav, "--url", "ws://x", "--llm", "y")
    with pytest.raises(SystemExit) as caught:
        main(["ask", wav, "--threads", "none"])
    assert caught.value.code == 2
    assert "whole number" in capsys.readouterr().err


def test_an_own_server_gets_the_engine_options(
    wav: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[Sequence[str]] = []

    with served([ScriptedTurn()]) as server:

        class Fake:
            def __init__(self, options: Sequence[str]) -> None:
                given.append(options)
                self.url = server.url

            def __enter__(self) -> Fake:
                return self

            def __exit__(self, *_: object) -> None:
                given.append("stopped")

        monkeypatch.setattr("voice.client.server_process.ServerProcess", Fake)
        argv = ["ask", wav, "--out", str(tmp_path / "a.wav"), "--llm", "big", "--threads", "3", "--offline"]
        assert main(argv) == 0
    assert given == [["--llm", "big", "--threads", "3", "--offline"], "stopped"]


def test_the_key_comes_from_the_environment(wav: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICE_API_KEY", "from-env")
    with served([ScriptedTurn()]) as server:
        assert main(["ask", wav, "--url", server.url, "--out", str(tmp_path / "a.wav")]) == 0
        assert server.headers[0]["Authorization"] == "Bearer from-env"


def shown(*events: dict[str, Any]) -> str:
    stream = io.StringIO()
    printer = EventPrinter(stream)
    for event in events:
        printer.show(event)
    printer.end_line()
    return stream.getvalue()


def test_a_final_transcript_that_differs_is_said_anew() -> None:
    delta = {"type": f"{STT}.delta", "item_id": "u", "delta": "Hat is"}
    final = {"type": f"{STT}.completed", "item_id": "u", "transcript": "What is it?"}
    assert shown(delta, final) == "you:       Hat is\nyou:       What is it?\n"


def test_a_final_transcript_that_goes_on_is_completed_in_place() -> None:
    delta = {"type": f"{STT}.delta", "item_id": "u", "delta": "What is"}
    final = {"type": f"{STT}.completed", "item_id": "u", "transcript": "What is it?"}
    assert shown(delta, final) == "you:       What is it?\n"
    assert shown(final) == "you:       What is it?\n"


def test_an_interrupted_reply_says_so() -> None:
    words = {"type": "response.output_audio_transcript.delta", "response_id": "r", "delta": "It is"}
    done = {"type": "response.done", "response": {"id": "r", "status": "cancelled"}}
    assert shown(words, done) == "assistant: It is … (interrupted)\n"


def test_tables_align() -> None:
    assert table([["a", "bb"], ["ccc", "d"]]) == "a    bb\nccc   d"
