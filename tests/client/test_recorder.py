"""The clocks, on events with made-up arrival times."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from voice.client.recorder import TurnRecorder
from voice.client.testing import LATENCY, tone
from voice.errors import ServiceError

STT = "conversation.item.input_audio_transcription"


def audio(samples: NDArray[np.int16], response: str = "r1") -> dict[str, Any]:
    delta = base64.b64encode(samples.astype("<i2").tobytes()).decode()
    return {"type": "response.output_audio.delta", "response_id": response, "delta": delta}


def words(text: str, response: str = "r1") -> dict[str, Any]:
    return {"type": "response.output_audio_transcript.delta", "response_id": response, "delta": text}


def created(response: str = "r1") -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": response, "status": "in_progress"}}


def done(status: str = "completed", response: str = "r1", latency: dict[str, Any] | None = None) -> dict[str, Any]:
    metadata = {"voice.latency": json.dumps(LATENCY if latency is None else latency)}
    return {"type": "response.done", "response": {"id": response, "status": status, "metadata": metadata}}


def user(item: str, text: str) -> list[dict[str, Any]]:
    return [
        {"type": "input_audio_buffer.committed", "item_id": item},
        {"type": f"{STT}.completed", "item_id": item, "transcript": text},
    ]


def started() -> dict[str, Any]:
    return {"type": "input_audio_buffer.speech_started", "item_id": "u1", "audio_start_ms": 0}


def stopped(end_ms: int) -> dict[str, Any]:
    return {"type": "input_audio_buffer.speech_stopped", "item_id": "u1", "audio_end_ms": end_ms}


def recorder() -> TurnRecorder:
    """A question whose last voiced sample, at 2.0 s of the stream, went out at 102.0; it was all out at 102.2."""
    made = TurnRecorder("q.wav", 2.0)
    made.on_event(started(), 100.5)
    made.last_voiced_sent(102.0)
    made.question_sent(102.2)
    return made


def play(made: TurnRecorder, *events: tuple[float, dict[str, Any]]) -> TurnRecorder:
    for at_s, event in events:
        made.on_event(event, at_s)
    return made


def test_both_clocks_count_leading_silence_as_waiting() -> None:
    silence = np.zeros(2400, np.int16)  # 100 ms
    made = play(
        recorder(),
        (102.4, stopped(2400)),
        *((102.4, event) for event in user("u1", "What is it?")),
        (102.5, created()),
        (102.5, words("It is ")),
        (102.6, audio(silence)),
        (102.65, audio(np.concatenate([silence[:1200], tone(0.2)]))),
        (102.7, words("Paris.")),
        (102.8, done()),
    )
    assert made.finished(102.8)
    report = made.report()
    # Playback starts at 102.6; the first audible sample follows 150 ms of silence.
    assert report.voice_to_voice_ms == pytest.approx(750, abs=1)
    assert report.commit_to_audio_ms == pytest.approx(350, abs=1)
    assert report.transcript == "What is it?"
    assert report.reply == "It is Paris."
    assert report.stages == {
        "asr_final_ms": 180.0,
        "llm_first_token_ms": 60.0,
        "llm_first_clause_ms": 120.0,
        "tts_first_audio_ms": 70.0,
    }
    assert report.audio.size == 2400 + 1200 + 4800
    assert report.underruns == 0 and report.segments == 1


def test_silence_that_ran_out_before_the_words_came() -> None:
    made = play(
        recorder(),
        (102.4, stopped(2400)),
        *((102.4, event) for event in user("u1", "Hm?")),
        (102.5, created()),
        (102.5, audio(np.zeros(240, np.int16))),
        (103.0, audio(tone(0.2))),
        (103.0, done()),
    )
    report = made.report()
    assert report.voice_to_voice_ms == pytest.approx(1000, abs=1)
    assert report.underruns == 1
    assert report.gap_ms == pytest.approx(490, abs=1)


def test_a_question_split_by_a_pause_joins_transcripts_and_takes_the_last_reply() -> None:
    made = TurnRecorder("q.wav", 4.0)
    play(
        made,
        (100.5, started()),
        (102.0, stopped(2000)),
        *((102.0, event) for event in user("u1", "What is")),
        (102.1, created("r1")),
        (102.2, words("What?", "r1")),
        (102.2, audio(tone(0.2), "r1")),
        (102.3, started()),
        (102.3, done("cancelled", "r1")),
    )
    made.last_voiced_sent(104.0)
    made.question_sent(104.0)
    assert not made.finished(104.0)
    play(
        made,
        (104.2, stopped(4200)),
        *((104.2, event) for event in user("u2", "the capital?")),
        (104.3, created("r2")),
        (104.4, words("Paris.", "r2")),
        (104.4, audio(tone(0.2), "r2")),
        (104.5, done("completed", "r2")),
    )
    assert made.finished(104.5)
    report = made.report()
    assert report.transcript == "What is the capital?"
    assert report.reply == "Paris."
    assert report.voice_to_voice_ms == pytest.approx(400, abs=1)
    assert report.commit_to_audio_ms == pytest.approx(200, abs=1)
    assert report.segments == 2


def test_an_early_answer_waits_for_the_rest_to_be_detected() -> None:
    """The first part was answered in full before the server noticed the second part."""
    made = play(
        TurnRecorder("q.wav", 4.0),
        (100.5, started()),
        (102.0, stopped(2000)),
        *((102.0, event) for event in user("u1", "What is")),
        (102.1, created()),
        (102.1, audio(tone(0.2))),
        (102.2, done()),
    )
    made.last_voiced_sent(104.0)
    made.question_sent(104.0)
    assert not made.finished(104.5)
    assert made.finished(105.1)  # nothing more came: the answer stands


def test_the_transcript_may_come_after_the_reply() -> None:
    made = play(recorder(), (102.4, stopped(2400)), (102.4, user("u1", "")[0]), (102.5, created()))
    play(made, (102.6, audio(tone(0.2))), (102.7, done()))
    assert not made.finished(103.0)
    play(made, (103.1, user("u1", "At last.")[1]))
    assert made.finished(103.1)
    assert made.report().transcript == "At last."


def test_without_a_final_transcript_the_partial_stands() -> None:
    made = play(recorder(), (102.4, stopped(2400)), (102.4, user("u1", "")[0]))
    play(made, (102.45, {"type": f"{STT}.delta", "item_id": "u1", "delta": "Half"}), (102.5, created()))
    play(made, (102.6, audio(tone(0.2))), (102.7, done()))
    assert made.finished(106.0)
    assert made.report().transcript == "Half"


def test_late_news_of_an_earlier_turn_is_not_this_turn() -> None:
    made = TurnRecorder("q.wav", 2.0, frozenset({"u0"}))
    play(made, (1.0, {"type": f"{STT}.delta", "item_id": "u0", "delta": "Old"}), (1.0, user("u0", "Old words")[1]))
    play(made, (1.1, started()), *((2.0, event) for event in user("u1", "New words")))
    assert made.transcript == "New words"
    assert made.items == {"u0", "u1"}


@pytest.mark.parametrize("metadata", [None, {}, {"voice.latency": "not json"}, {"voice.latency": "[1]"}])
def test_a_server_that_reports_no_timing(metadata: dict[str, str] | None) -> None:
    made = play(recorder(), (102.4, stopped(2400)), *((102.4, event) for event in user("u1", "a")), (102.5, created()))
    end = {"type": "response.done", "response": {"id": "r1", "status": "completed", "metadata": metadata}}
    play(made, (102.6, audio(tone(0.2))), (102.7, end))
    assert set(made.report().stages.values()) == {None}


def test_null_stages_stay_null() -> None:
    made = play(recorder(), (102.4, stopped(2400)), *((102.4, event) for event in user("u1", "a")), (102.5, created()))
    play(made, (102.6, audio(tone(0.2))), (102.7, done(latency={"asr_final_ms": None, "llm_first_token_ms": 61.5})))
    stages = made.report().stages
    assert stages["asr_final_ms"] is None and stages["llm_first_token_ms"] == 61.5


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"type": "error", "error": {"message": "the ASR\nstopped"}}, "failed on q.wav: the ASR stopped"),
        ({"type": f"{STT}.failed", "item_id": "u1", "error": {"message": "no memory"}}, "not transcribe q.wav: no mem"),
        (
            {"type": "response.done", "response": {"id": "r1", "status": "failed", "status_details": {"error": "x"}}},
            "failed to answer q.wav: x",
        ),
        ({"type": "response.output_audio.delta", "response_id": "r1", "delta": "@@"}, "no base64"),
        ({"type": "response.output_audio.delta", "response_id": "r1", "delta": "QUJD"}, "whole PCM16"),
    ],
)
def test_failures_are_one_line(event: dict[str, Any], message: str) -> None:
    with pytest.raises(ServiceError, match=message) as caught:
        recorder().on_event(event, 103.0)
    assert "\n" not in str(caught.value)


def test_a_silent_reply_is_a_failure() -> None:
    made = play(recorder(), (102.4, stopped(2400)), *((102.4, event) for event in user("u1", "a")), (102.5, created()))
    play(made, (102.6, audio(np.zeros(2400, np.int16))), (102.7, done()))
    with pytest.raises(ServiceError, match="no audible sound"):
        made.report()


def test_patience_ends() -> None:
    deaf = TurnRecorder("q.wav", 2.0)
    deaf.check_patience(1e9, 10, 30)  # still being asked
    deaf.question_sent(102.0)
    deaf.check_patience(111.0, 10, 30)
    with pytest.raises(ServiceError, match=r"heard no speech in q\.wav for 10 s"):
        deaf.check_patience(112.5, 10, 30)
    mute = recorder()
    mute.check_patience(132.0, 10, 30)
    mute.on_event(user("u1", "a")[0], 130.0)
    mute.check_patience(159.0, 10, 30)
    with pytest.raises(ServiceError, match=r"left q\.wav without a reply for 30 s"):
        mute.check_patience(160.5, 10, 30)
