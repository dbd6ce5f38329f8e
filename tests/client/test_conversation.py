"""Conversations against a scripted session in memory, on a virtual clock: no socket, no waiting."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from voice.audio import write_wav
from voice.client.conversation import FRAME_SAMPLES, Conversation, Question
from voice.client.recorder import TurnReport
from voice.client.testing import ScriptedSession, ScriptedTurn, tone
from voice.errors import AudioFileError, ServiceError


class VirtualTime:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def clock(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        for _ in range(3):  # let the other task see what has arrived
            await asyncio.sleep(0)


class MemoryClient:
    """A client whose server is a scripted session in the same process."""

    def __init__(self, turns: Sequence[ScriptedTurn], time: VirtualTime, configure: bool = True) -> None:
        self.session = ScriptedSession(turns)
        self.time = time
        self.sent: list[tuple[float, NDArray[np.int16]]] = []
        self._configure = configure
        self._events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    async def configure(self, session: dict[str, Any]) -> None:
        if self._configure:
            self._put(self.session.receive({"type": "session.update", "session": session}))

    async def send_audio(self, samples: NDArray[np.int16]) -> None:
        self.sent.append((self.time.now_s, samples))
        audio = base64.b64encode(samples.tobytes()).decode()
        self._put(self.session.receive({"type": "input_audio_buffer.append", "audio": audio}))

    def _put(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            self._events.put_nowait(event)

    def drop(self) -> None:
        self._events.put_nowait(None)

    def refuse(self, message: str) -> None:
        self._events.put_nowait({"type": "error", "error": {"message": message}})

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        while (event := await self._events.get()) is not None:
            yield event


def question(*parts: NDArray[np.int16], name: str = "q.wav") -> Question:
    samples = np.concatenate(parts)
    return Question(name, samples, int(np.flatnonzero(samples)[-1]))


def quiet(seconds: float) -> NDArray[np.int16]:
    return np.zeros(round(seconds * 24000), np.int16)


async def hold(
    turns: Sequence[ScriptedTurn], questions: Sequence[Question], **options: Any
) -> tuple[list[TurnReport], MemoryClient]:
    time = VirtualTime()
    client = MemoryClient(turns, time)
    conversation = Conversation(client, clock=time.clock, sleep=time.sleep, **options)
    return await conversation.run(questions), client


async def test_one_question() -> None:
    events: list[str] = []
    reports, client = await hold(
        [ScriptedTurn()],
        [question(quiet(0.1), tone(0.5), quiet(0.1))],
        on_event=lambda event: events.append(event["type"]),
    )
    (report,) = reports
    assert report.transcript == "What is the capital of France?"
    assert report.reply == "The capital of France is Paris."
    assert np.array_equal(report.audio, tone(0.3))
    # The script ends the turn 200 ms after the last loud frame and answers at once: on a clock that only the frames
    # move, the reply arrives while the frame that ended the turn is being sent.
    assert 160 <= report.voice_to_voice_ms <= 220
    assert 0 <= report.commit_to_audio_ms < 20
    assert report.underruns == 0
    assert events[0] == "session.updated" and events[-1] == "response.done"
    assert client.session.received[0]["session"]["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24000}


async def test_frames_are_whole_and_leave_every_20_ms() -> None:
    _, client = await hold([ScriptedTurn()], [question(tone(0.505), quiet(0.1))])
    assert {samples.size for _, samples in client.sent} == {FRAME_SAMPLES}
    times = [at_s for at_s, _ in client.sent]
    assert np.allclose(np.diff(times), 0.020)
    sent = np.concatenate([samples for _, samples in client.sent])
    assert np.array_equal(sent[:12120], tone(0.505))
    assert not sent[12120:].any()


async def test_late_frames_catch_up() -> None:
    """A stall of 100 ms delays what it must and no more: the deadlines are absolute."""
    time = VirtualTime()
    client = MemoryClient([ScriptedTurn()], time)
    naps = 0

    async def sleep(seconds: float) -> None:
        nonlocal naps
        naps += 1
        await time.sleep(0.100 if naps == 10 else seconds)

    await Conversation(client, clock=time.clock, sleep=sleep).run([question(tone(0.5))])
    times = [at_s - client.sent[0][0] for at_s, _ in client.sent]
    assert times[8] == pytest.approx(0.160)
    assert times[9] == pytest.approx(0.260)
    assert times[12] == pytest.approx(0.260)
    assert times[14] == pytest.approx(0.280)


async def test_the_next_question_waits_until_the_reply_was_heard() -> None:
    turns = [ScriptedTurn("One?", "First.", tone(2.0)), ScriptedTurn("Two?", "Second.", tone(0.4))]
    done: list[str] = []
    reports, client = await hold(
        turns,
        [question(tone(0.5), name="1.wav"), question(tone(0.5), name="2.wav")],
        on_turn=lambda report: done.append(report.reply),
    )
    assert [report.transcript for report in reports] == ["One?", "Two?"]
    assert [report.reply for report in reports] == done == ["First.", "Second."]
    loud = [at_s for at_s, samples in client.sent if samples.any()]
    gap_s = max(np.diff(loud))
    assert gap_s == pytest.approx(0.2 + 2.0 + 0.3, abs=0.1)
    assert len(client.session.received) == 1


async def test_a_pause_inside_the_question() -> None:
    """The server takes the pause for the end, is interrupted by the rest, and answers again."""
    turns = [
        ScriptedTurn("What is,", "It is", tone(0.5), status="cancelled"),
        ScriptedTurn("next month?", "January.", tone(0.5)),
    ]
    reports, _ = await hold(turns, [question(tone(0.5), quiet(0.45), tone(0.5))])
    (report,) = reports
    assert report.transcript == "What is, next month?"
    assert report.reply == "January."
    assert report.segments == 2
    assert report.voice_to_voice_ms > 0


async def test_a_pause_whose_answer_is_complete_before_the_rest() -> None:
    turns = [ScriptedTurn("What is,", "Yes.", tone(0.1)), ScriptedTurn("next month?", "January.", tone(0.5))]
    reports, _ = await hold(turns, [question(tone(0.5), quiet(0.45), tone(0.5))])
    assert reports[0].reply == "January."
    assert reports[0].transcript == "What is, next month?"


async def test_an_error_event_fails_the_turn() -> None:
    with pytest.raises(ServiceError, match=r"failed on q\.wav: the LLM ran out of memory"):
        await hold([ScriptedTurn(error="the LLM ran out of memory")], [question(tone(0.5))])


async def test_a_failed_response_fails_the_turn() -> None:
    with pytest.raises(ServiceError, match=r"failed to answer q\.wav: the LLM stopped"):
        await hold([ScriptedTurn(status="failed")], [question(tone(0.5))])


async def test_no_speech_and_no_reply() -> None:
    whisper = Question("q.wav", tone(0.5, amplitude=0.005), 100)
    with pytest.raises(ServiceError, match="heard no speech"):
        await hold([], [whisper], no_speech_s=2.0)
    with pytest.raises(ServiceError, match="without a reply"):
        await hold([ScriptedTurn(silent=True)], [question(tone(0.5))], no_reply_s=2.0)


async def test_a_dropped_connection_and_a_refused_session() -> None:
    time = VirtualTime()
    client = MemoryClient([], time)
    client.drop()
    with pytest.raises(ServiceError, match="closed in the middle"):
        await Conversation(client, clock=time.clock, sleep=time.sleep).run([question(tone(0.5))])
    client = MemoryClient([], time, configure=False)
    client.refuse("unknown voice")
    with pytest.raises(ServiceError, match="refused the session: unknown voice"):
        await Conversation(client, clock=time.clock, sleep=time.sleep).run([question(tone(0.5))])


async def test_no_task_is_left_behind() -> None:
    before = asyncio.all_tasks()
    await hold([ScriptedTurn()], [question(tone(0.5))])
    with pytest.raises(ServiceError):
        await hold([ScriptedTurn(error="x")], [question(tone(0.5))])
    assert asyncio.all_tasks() == before


def test_questions_from_files(tmp_path: Any) -> None:
    rate_hz = 16000
    path = str(tmp_path / "q.wav")
    write_wav(path, np.concatenate([tone(0.5, rate_hz=rate_hz), np.zeros(rate_hz, np.int16)]), rate_hz)
    loaded = Question.from_wav(path)
    assert loaded.samples.size == 36000
    assert abs(loaded.last_voiced - 12000) <= 240
    assert Question.from_wav(path, last_voiced_s=0.25).last_voiced == 6000
    assert Question.from_wav(path, last_voiced_s=99).last_voiced == 35999
    write_wav(path, np.zeros(rate_hz, np.int16), rate_hz)
    with pytest.raises(AudioFileError, match="is silent"):
        Question.from_wav(path)
