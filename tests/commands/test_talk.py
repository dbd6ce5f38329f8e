"""`voice talk` with fake devices and a scripted server."""

from __future__ import annotations

import asyncio
import base64
import io
import signal
from typing import Any

import numpy as np
import pytest

from voice.audio import pcm16_to_float
from voice.cli import main
from voice.client import RealtimeClient
from voice.client.devices import Microphone, Speaker
from voice.client.testing import FakeSoundDevice, ScriptedServer, ScriptedTurn, tone
from voice.commands import talk
from voice.errors import ResourceError, ServiceError

STT = "conversation.item.input_audio_transcription"


def use(monkeypatch: pytest.MonkeyPatch, sd: FakeSoundDevice) -> None:
    monkeypatch.setattr("voice.client.devices.load_sounddevice", lambda: sd)


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def press_ctrl_c(*_: object) -> None:
    signal.raise_signal(signal.SIGINT)
    await asyncio.sleep(60)


async def test_a_spoken_question_is_heard_answered_and_played() -> None:
    sd = FakeSoundDevice()
    stream = io.StringIO()
    more = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with (
        ScriptedServer([ScriptedTurn(audio=tone(0.5))]).running() as server,
        await RealtimeClient.connect(server.url) as client,
    ):
        speaker = Speaker(sd)
        microphone = Microphone(sd, wake=lambda: talk.wake(loop, more))
        task = asyncio.create_task(talk.converse(client, microphone, speaker, talk.Screen(stream), more))
        for _ in range(10):
            sd.streams["input"].record(pcm16_to_float(tone(0.02)))
        for _ in range(15):
            sd.streams["input"].record(np.zeros(480, np.float32))
        await until(lambda: "assistant" in stream.getvalue() and speaker.backlog_ms >= 499)
        assert np.array_equal(sd.streams["output"].fetch(12000), pcm16_to_float(tone(0.5)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert stream.getvalue() == (
        "you:       What is the capital of France?\nassistant: The capital of France is Paris.\n"
    )


async def test_the_end_of_the_connection_is_one_line() -> None:
    sd = FakeSoundDevice()
    more = asyncio.Event()
    async with ScriptedServer(drop_after=1).running() as server, await RealtimeClient.connect(server.url) as client:
        microphone = Microphone(sd, wake=more.set)
        sd.streams["input"].record(np.zeros(480, np.float32))
        with pytest.raises(ServiceError, match="code 1011"):
            await talk.converse(client, microphone, Speaker(sd), talk.Screen(io.StringIO()), more)


class Recorder:
    """A client that only remembers what it was told to send."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def send(self, event: dict[str, Any]) -> None:
        self.sent.append(event)


def delta(response: str = "r1", seconds: float = 1.0) -> dict[str, Any]:
    audio = base64.b64encode(tone(seconds).tobytes()).decode()
    return {"type": "response.output_audio.delta", "response_id": response, "item_id": f"i{response}", "delta": audio}


async def test_barge_in_stops_playback_and_says_how_much_was_heard() -> None:
    sd, client = FakeSoundDevice(), Recorder()
    speaker = Speaker(sd)
    playback = talk.Playback(client, speaker)  # type: ignore[arg-type]
    await playback.follow(delta())
    sd.streams["output"].fetch(6000)
    await playback.follow({"type": "input_audio_buffer.speech_started"})
    assert client.sent == [
        {"type": "conversation.item.truncate", "item_id": "ir1", "content_index": 0, "audio_end_ms": 250}
    ]
    assert not sd.streams["output"].fetch(480).any()
    await playback.follow(delta())  # was still on its way
    assert not sd.streams["output"].fetch(480).any()
    await playback.follow({"type": "response.output_audio.done", "response_id": "r1"})
    await playback.follow(delta("r2"))
    assert sd.streams["output"].fetch(480).any()


async def test_speech_after_the_reply_was_heard_truncates_nothing() -> None:
    sd, client = FakeSoundDevice(), Recorder()
    playback = talk.Playback(client, Speaker(sd))  # type: ignore[arg-type]
    await playback.follow({"type": "input_audio_buffer.speech_started"})
    await playback.follow(delta(seconds=0.1))
    sd.streams["output"].fetch(4800)
    await playback.follow({"type": "input_audio_buffer.speech_started"})
    assert client.sent == []


def test_ctrl_c_leaves_with_zero(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use(monkeypatch, FakeSoundDevice())

    monkeypatch.setattr(talk, "converse", press_ctrl_c)
    with ScriptedServer().in_thread() as server:
        assert main(["talk", "--url", server.url]) == 0
    assert "listening on Fake input, speaking on Fake output" in capsys.readouterr().out


def test_both_devices_run_at_their_own_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 15: exit code 0 on a device that does 48 kHz only."""
    sd = FakeSoundDevice(rates=(48000,))
    use(monkeypatch, sd)

    monkeypatch.setattr(talk, "converse", press_ctrl_c)
    with ScriptedServer().in_thread() as server:
        assert main(["talk", "--url", server.url]) == 0
    assert sd.streams["input"].closed and sd.streams["output"].closed


def test_no_device_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    sd = FakeSoundDevice()
    sd.missing = {"input"}
    use(monkeypatch, sd)
    assert main(["talk", "--url", "ws://127.0.0.1:9"]) == 2
    assert capsys.readouterr().err == (
        "voice: no microphone was found: connect one, or choose a device; see `voice talk --list-devices`\n"
    )


def test_no_portaudio_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def missing() -> None:
        raise ResourceError("talking needs the PortAudio library")

    monkeypatch.setattr("voice.client.devices.load_sounddevice", missing)
    assert main(["talk"]) == 2
    assert capsys.readouterr().err == "voice: talking needs the PortAudio library\n"


def test_devices_are_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use(monkeypatch, FakeSoundDevice())
    assert main(["talk", "--list-devices"]) == 0
    assert "Fake device" in capsys.readouterr().out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_meter_redraws_one_line_on_a_terminal() -> None:
    stream = Terminal()
    screen = talk.Screen(stream, width=40)
    screen.level(-30.0)
    assert stream.getvalue() == f"\r\x1b[K[{'#' * 10}{' ' * 10}] "
    screen.show({"type": f"{STT}.delta", "item_id": "u", "delta": "What is the capital"})
    assert stream.getvalue().endswith("] …is the capital")
    screen.show({"type": f"{STT}.completed", "item_id": "u", "transcript": "What?"})
    assert "\r\x1b[Kyou:       What?\n" in stream.getvalue()
    screen.level(-200.0)
    screen.level(6.0)
    assert stream.getvalue().endswith(f"[{'#' * 20}] ")


def test_no_meter_in_a_pipe() -> None:
    stream = io.StringIO()
    screen = talk.Screen(stream)
    screen.level(-30.0)
    screen.show({"type": "error", "error": {"message": "too\nmuch"}})
    screen.show(
        {"type": "response.done", "response": {"id": "r", "status": "failed", "status_details": {"error": "x"}}}
    )
    assert stream.getvalue() == "(the service says: too much)\n(the service failed: x)\n"
