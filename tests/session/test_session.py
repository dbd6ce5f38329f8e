"""The session core on virtual time, with scripted engines: the exact orders of events, and what goes wrong."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from voice.config import Config, Sampling
from voice.conversation import ChatMessage
from voice.engines.asr import Depth
from voice.engines.bundle import Engines
from voice.testing import (
    MemoryClient,
    ScriptedLanguageModel,
    ScriptedRecognizer,
    ScriptedSynthesizer,
    run_virtual,
    scripted_engines,
    speech_pcm24k,
)

QUESTION = speech_pcm24k(0.4, amplitude=0) + speech_pcm24k(1.0) + speech_pcm24k(0.8, amplitude=0)
SILENCE = speech_pcm24k(1.0, amplitude=0)

TURN_A = [
    "input_audio_buffer.speech_started",
    "input_audio_buffer.speech_stopped",
    "input_audio_buffer.committed",
    "conversation.item.added",
    "conversation.item.done",
    "conversation.item.input_audio_transcription.delta",
    "conversation.item.input_audio_transcription.completed",
]
REPLY_HEAD = [
    "response.created",
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
]
REPLY_TAIL = [
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "conversation.item.done",
    "response.done",
]
DELTAS = {"response.output_audio_transcript.delta", "response.output_audio.delta", "response.output_text.delta"}


def converse(
    script: Callable[[MemoryClient], Awaitable[None]], engines: Engines | None = None, config: Config | None = None
) -> MemoryClient:
    """Runs a scripted client to its end and returns it."""

    async def main() -> MemoryClient:
        async with MemoryClient.connect(engines or scripted_engines(), config) as client:
            await script(client)
        return client

    return run_virtual(main())


def without_deltas(types: list[str]) -> list[str]:
    return [kind for kind in types if kind not in DELTAS]


def manual(client: MemoryClient, **session: Any) -> None:
    audio = {"input": {"turn_detection": None}}
    client.send({"type": "session.update", "session": {"type": "realtime", "audio": audio, **session}})


def user_says(client: MemoryClient, text: str) -> None:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    client.send({"type": "conversation.item.create", "item": item})


def test_order_a_server_vad_and_spoken_reply() -> None:
    async def script(client: MemoryClient) -> None:
        await client.speak(QUESTION)
        await client.wait_for("response.done")

    client = converse(script, scripted_engines(asr=ScriptedRecognizer(["where is it"])))
    assert client.types[0] == "session.created"
    assert without_deltas(client.types)[1:] == TURN_A + REPLY_HEAD + REPLY_TAIL
    deltas = [kind for kind in client.types if kind in DELTAS]
    assert deltas[0] == "response.output_audio_transcript.delta"
    assert deltas.count("response.output_audio.delta") > 1


def test_ids_chain_and_are_unique() -> None:
    async def script(client: MemoryClient) -> None:
        await client.speak(QUESTION)
        await client.wait_for("response.done")

    client = converse(script)
    event_ids = [event["event_id"] for event in client.events]
    assert len(set(event_ids)) == len(event_ids)
    user_id = client.of("input_audio_buffer.speech_started")[0]["item_id"]
    assert client.of("input_audio_buffer.committed")[0] | {"event_id": ""} == {
        "type": "input_audio_buffer.committed",
        "event_id": "",
        "item_id": user_id,
        "previous_item_id": None,
    }
    user, assistant = client.of("conversation.item.added")
    assert user["item"]["id"] == user_id
    assert user["item"]["content"] == [{"type": "input_audio", "transcript": None}]
    assert assistant["previous_item_id"] == user_id
    assert assistant["item"]["status"] == "in_progress" and assistant["item"]["content"] == []
    done = client.of("response.done")[0]["response"]
    assert done["status"] == "completed"
    assert done["output"][0]["content"] == [{"type": "output_audio", "transcript": "Hello there."}]
    assert done["output_modalities"] == ["audio"]
    assert done["audio"]["output"] == {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "tone"}


def test_order_b_text_reply() -> None:
    async def script(client: MemoryClient) -> None:
        manual(client, output_modalities=["text"])
        user_says(client, "hi")
        client.send({"type": "response.create"})
        await client.wait_for("response.done")

    client = converse(script, scripted_engines(llm=ScriptedLanguageModel([["Hel", "lo."]])))
    tail = ["response.output_text.done", *REPLY_TAIL[2:]]
    assert client.types[-11:] == [*REPLY_HEAD, "response.output_text.delta", "response.output_text.delta", *tail]
    assert client.of("response.output_text.done")[0]["text"] == "Hello."
    assert client.of("response.content_part.added")[0]["part"] == {"type": "text", "text": ""}


def test_order_e_manual_commit_then_create() -> None:
    async def script(client: MemoryClient) -> None:
        manual(client)
        client.append(QUESTION)
        client.send({"type": "input_audio_buffer.commit"})
        client.send({"type": "response.create"})
        await client.wait_for("response.done")

    llm = ScriptedLanguageModel()
    client = converse(script, scripted_engines(asr=ScriptedRecognizer(["where is it"], delay_s=0.2), llm=llm))
    types = without_deltas(client.types)[2:]
    assert types[:3] == TURN_A[2:5]
    assert set(types) == set(TURN_A[2:] + REPLY_HEAD + REPLY_TAIL)
    # the reply waits for the words, whatever the order of the events
    assert llm.prompts[0][-1] == ChatMessage("user", "where is it")
    assert types.index("conversation.item.input_audio_transcription.completed") < types.index(
        "response.output_item.added"
    )


def test_order_f_cancel_in_mid_reply() -> None:
    async def script(client: MemoryClient) -> None:
        manual(client)
        user_says(client, "count")
        client.send({"type": "response.create"})
        await client.wait_for("response.output_audio.delta")
        client.send({"type": "response.cancel", "event_id": "c1"})
        await client.wait_for("response.done")
        client.send({"type": "response.cancel", "event_id": "c2"})
        await client.wait_for("error")

    llm = ScriptedLanguageModel([["One two three. ", 0.5] * 30])
    client = converse(script, scripted_engines(llm=llm))
    assert without_deltas(client.types)[-11:-1] == REPLY_HEAD + REPLY_TAIL
    response = client.of("response.done")[0]["response"]
    assert response["status"] == "cancelled"
    assert response["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
    assert response["output"][0]["status"] == "incomplete"
    assert llm.running == set() and len(llm.aborted) == 1
    error = client.of("error")[0]["error"]
    assert (error["code"], error["event_id"]) == ("response_cancel_not_active", "c2")
    assert error["message"].startswith("Cancellation failed")


def test_barge_in_closes_the_reply_after_speech_started() -> None:
    async def script(client: MemoryClient) -> None:
        await client.speak(QUESTION)
        await client.wait_for("response.output_audio.delta")
        await client.speak(QUESTION)
        await client.wait_for("response.done", count=2)

    llm = ScriptedLanguageModel([["One two three four five. ", 0.4] * 30, ["Yes."]])
    client = converse(script, scripted_engines(asr=ScriptedRecognizer(["first", "second"]), llm=llm))
    first = client.of("response.created")[0]["response"]["id"]
    started = [index for index, kind in enumerate(client.types) if kind == "input_audio_buffer.speech_started"][1]
    done = next(
        index for index, event in enumerate(client.events) if event.get("response", {}).get("status") == "cancelled"
    )
    assert client.types[started + 1 : done + 1] == REPLY_TAIL
    assert client.events[done]["response"]["status_details"]["reason"] == "turn_detected"
    assert all(event.get("response_id") != first for event in client.events[done + 1 :])
    # the next prompt holds only what can have been heard of the first reply
    said = client.events[done]["response"]["output"][0]["content"][0]["transcript"]
    heard = llm.prompts[1][2].content
    assert said.startswith("One two three four five.") and heard == "One two"
    assert llm.prompts[1][-1] == ChatMessage("user", "second")


def test_going_on_before_the_answer_makes_one_answer_to_both_parts() -> None:
    async def script(client: MemoryClient) -> None:
        await client.speak(QUESTION)
        await client.speak(QUESTION)
        await client.wait_for("response.done")

    llm = ScriptedLanguageModel()
    asr = ScriptedRecognizer(["five five five", "one two three"], delay_s=1.3)
    client = converse(script, scripted_engines(asr=asr, llm=llm))
    assert len(client.of("response.created")) == 1
    assert llm.prompts[0][-1] == ChatMessage("user", "five five five one two three")


def test_turns_do_not_depend_on_the_pace_of_the_audio() -> None:
    two = speech_pcm24k(0.6) + speech_pcm24k(0.7, amplitude=0) + speech_pcm24k(0.6) + speech_pcm24k(0.7, amplitude=0)

    async def one_message(client: MemoryClient) -> None:
        client.append(two)
        await client.wait_for("response.done")

    async def frames_at_once(client: MemoryClient) -> None:
        for start in range(0, len(two), 481):  # odd: samples are split between messages
            client.append(two[start : start + 481])
        await client.wait_for("response.done")

    async def in_real_time(client: MemoryClient) -> None:
        await client.speak(two)
        await client.wait_for("response.done")

    results = []
    for pace in (one_message, frames_at_once, in_real_time):
        asr = ScriptedRecognizer(["one", "two"])
        client = converse(pace, scripted_engines(asr=asr))
        starts = [event["audio_start_ms"] for event in client.of("input_audio_buffer.speech_started")]
        stops = [event["audio_end_ms"] for event in client.of("input_audio_buffer.speech_stopped")]
        results.append((starts, stops, [len(audio) for audio in asr.heard]))
    assert len(results[0][0]) == 2
    assert results[0] == results[1] == results[2]


def test_a_pause_inside_a_sentence_costs_one_more_hearing_and_no_turn() -> None:
    async def script(client: MemoryClient) -> None:
        pause = speech_pcm24k(0.3, amplitude=0)
        await client.speak(speech_pcm24k(0.6) + pause + speech_pcm24k(0.6) + pause + pause)
        await client.wait_for("response.done")

    asr = ScriptedRecognizer(["half", "the whole sentence"], delay_s=0.05)
    llm = ScriptedLanguageModel()
    client = converse(script, scripted_engines(asr=asr, llm=llm))
    assert len(client.of("input_audio_buffer.committed")) == 1
    assert llm.prompts[0][-1] == ChatMessage("user", "the whole sentence")
    assert [round(len(audio) / 16000, 1) for audio in asr.heard] == [0.7, 1.6]


def test_audio_that_stops_coming_ends_the_turn() -> None:
    async def script(client: MemoryClient) -> None:
        await client.speak(speech_pcm24k(0.6))
        await client.wait_for("response.done", timeout_s=3)

    client = converse(script)
    assert client.types.count("input_audio_buffer.speech_stopped") == 1


def test_speech_without_words_gets_no_answer() -> None:
    async def script(client: MemoryClient) -> None:
        await client.speak(QUESTION)
        await client.speak(QUESTION)
        await client.wait_for("response.done")

    llm = ScriptedLanguageModel()
    client = converse(script, scripted_engines(asr=ScriptedRecognizer(["", "hello"]), llm=llm))
    assert len(client.of("response.created")) == 1
    assert [message.content for message in llm.prompts[0] if message.role == "user"] == ["hello"]


def test_committed_silence_is_not_shown_to_the_recogniser() -> None:
    async def script(client: MemoryClient) -> None:
        manual(client)
        client.append(SILENCE)
        client.send({"type": "input_audio_buffer.commit"})
        await client.wait_for("conversation.item.input_audio_transcription.completed")

    asr = ScriptedRecognizer(["Thank you for watching."])
    client = converse(script, scripted_engines(asr=asr))
    assert asr.heard == []
    assert client.of("conversation.item.input_audio_transcription.completed")[0]["transcript"] == ""


@pytest.mark.parametrize(
    "engines",
    [
        {"llm": ScriptedLanguageModel([[RuntimeError("llm broke")], ["Fine."]])},
        {"llm": ScriptedLanguageModel([["Half a sen", RuntimeError("llm broke")], ["Fine."]])},
        {"llm": ScriptedLanguageModel([["Bad."], ["Fine."]]), "tts": ScriptedSynthesizer(fail_on="Bad")},
    ],
)
def test_an_engine_that_raises_fails_that_reply_only(engines: dict[str, Any]) -> None:
    async def script(client: MemoryClient) -> None:
        await client.speak(QUESTION)
        await client.wait_for("error")
        await client.speak(QUESTION)
        await client.wait_for("response.done", count=2)

    client = converse(script, scripted_engines(**engines))
    first, second = [event["response"] for event in client.of("response.done")]
    assert first["status"] == "failed" and first["status_details"]["error"]["code"] == "engine_failed"
    assert second["status"] == "completed"
    assert len(client.of("error")) == 1
    assert client.of("error")[0]["error"]["type"] == "server_error"


def test_a_recogniser_that_raises_fails_that_turn_only() -> None:
    async def script(client: MemoryClient) -> None:
        await client.speak(QUESTION)
        await client.wait_for("error")
        await client.speak(QUESTION)
        await client.wait_for("response.done")

    client = converse(script, scripted_engines(asr=ScriptedRecognizer([RuntimeError("asr broke"), "again"])))
    assert len(client.of("conversation.item.input_audio_transcription.failed")) == 1
    assert client.of("response.done")[0]["response"]["status"] == "completed"


def test_bad_events_are_answered_and_cost_nothing() -> None:
    async def script(client: MemoryClient) -> None:
        manual(client)
        for number, audio in enumerate(["@@@", "AAA", "", 5]):
            client.send({"type": "input_audio_buffer.append", "audio": audio, "event_id": f"a{number}"})
        client.send(b"\x00\x01")
        client.send("{")
        client.send({"type": "input_audio_buffer.commit", "event_id": "empty"})
        client.send({"type": "conversation.item.delete", "item_id": "no", "event_id": "d"})
        client.append(QUESTION)
        client.send({"type": "input_audio_buffer.commit"})
        await client.wait_for("conversation.item.input_audio_transcription.completed")

    asr = ScriptedRecognizer()
    client = converse(script, scripted_engines(asr=asr))
    errors = [(event["error"]["code"], event["error"]["event_id"]) for event in client.of("error")]
    assert errors[:4] == [("invalid_audio", f"a{number}") for number in range(4)]
    assert errors[4:] == [
        ("invalid_value", None),
        ("invalid_json", None),
        ("input_audio_buffer_commit_empty", "empty"),
        ("item_delete_invalid_item_id", "d"),
    ]
    # From the prefix before the speech to the pause behind it.
    assert 0.3 + 1.0 < len(asr.heard[0]) / 16000 < 1.5


def test_items_can_be_made_placed_fetched_cut_and_deleted() -> None:
    async def script(client: MemoryClient) -> None:
        manual(client)
        part = {"type": "input_text", "text": "x"}
        for item_id, previous in (("b", None), ("a", "root"), ("c", "b"), ("b", None), ("d", "nowhere")):
            item = {"id": item_id, "type": "message", "role": "user", "content": [part]}
            client.send({"type": "conversation.item.create", "item": item, "previous_item_id": previous})
        client.send({"type": "conversation.item.retrieve", "item_id": "a"})
        client.send({"type": "conversation.item.delete", "item_id": "a"})
        client.send({"type": "conversation.item.retrieve", "item_id": "a"})
        client.send({"type": "conversation.item.truncate", "item_id": "b", "audio_end_ms": 5})
        await client.wait_for("error", count=4)

    client = converse(script)
    assert [(e["item"]["id"], e["previous_item_id"]) for e in client.of("conversation.item.added")] == [
        ("b", None),
        ("a", None),
        ("c", "b"),
    ]
    assert client.of("conversation.item.retrieved")[0]["item"]["id"] == "a"
    assert client.of("conversation.item.deleted")[0]["item_id"] == "a"
    assert [event["error"]["code"] for event in client.of("error")] == [
        "item_create_duplicate_item_id",
        "invalid_value",
        "item_retrieve_invalid_item_id",
        "invalid_value",
    ]


def test_truncate_is_clamped_repeatable_and_cuts_the_history() -> None:
    async def script(client: MemoryClient) -> None:
        manual(client)
        user_says(client, "go")
        client.send({"type": "response.create"})
        done = await client.wait_for("response.done")
        item_id = done["response"]["output"][0]["id"]
        for cut in (99_999, 1000, 1000, 0):
            event = {"type": "conversation.item.truncate", "item_id": item_id, "content_index": 0, "audio_end_ms": cut}
            client.send(event)
        await client.wait_for("conversation.item.truncated", count=4)
        client.send({"type": "conversation.item.retrieve", "item_id": item_id})
        user_says(client, "on")
        client.send({"type": "response.create"})
        await client.wait_for("response.done", count=2)

    llm = ScriptedLanguageModel([["One two three four. ", "Five six seven eight."], ["Ok."]])
    client = converse(script, scripted_engines(llm=llm))
    cuts = [event["audio_end_ms"] for event in client.of("conversation.item.truncated")]
    length = len(client.reply_audio()) // 48
    assert cuts[0] <= length and cuts[1:] == [1000, 1000, 0]
    assert client.of("conversation.item.retrieved")[0]["item"]["content"][0]["transcript"] == ""
    assert [message.role for message in llm.prompts[1]] == ["system", "user"]


def test_only_one_reply_at_a_time_but_out_of_band_ones_beside_it() -> None:
    async def script(client: MemoryClient) -> None:
        manual(client)
        user_says(client, "go")
        client.send({"type": "response.create"})
        client.send({"type": "response.create", "event_id": "twice"})
        side: dict[str, Any] = {"conversation": "none", "output_modalities": ["text"], "metadata": {"topic": "side"}}
        side["input"] = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "aside"}]}]
        client.send({"type": "response.create", "response": side})
        await client.wait_for("response.done", count=2)

    llm = ScriptedLanguageModel([["Main ", 1.0, "answer."], ["Side."]])
    client = converse(script, scripted_engines(llm=llm))
    error = client.of("error")[0]["error"]
    assert (error["code"], error["event_id"]) == ("conversation_already_has_active_response", "twice")
    side, main = [event["response"] for event in client.of("response.done")]
    assert side["metadata"]["topic"] == "side" and side["conversation_id"] is None
    assert client.of("response.created")[1]["response"]["metadata"] == {"topic": "side"}
    assert [message.content for message in llm.prompts[1]][1:] == ["aside"]
    added = [event["item"]["id"] for event in client.of("conversation.item.added")]
    assert side["output"][0]["id"] not in added and main["output"][0]["id"] in added


def test_cancel_then_create_in_one_go() -> None:
    async def script(client: MemoryClient) -> None:
        manual(client)
        user_says(client, "go")
        client.send({"type": "response.create"})
        for number in range(20):
            await client.wait_for("response.output_audio.delta", count=number + 1)
            client.send({"type": "response.cancel"})
            client.send({"type": "response.create"})
            await client.wait_for("response.created", count=number + 2)
        await client.wait_for("response.done", count=21)

    llm = ScriptedLanguageModel([["Some words here. And", 0.2, " more of them. And", 5.0, " the end."]])
    client = converse(script, scripted_engines(llm=llm))
    current: str | None = None
    for event in client.events:
        if event["type"] == "response.created":
            assert current is None
            current = event["response"]["id"]
        elif event["type"] == "response.done":
            assert event["response"]["id"] == current
            current = None
        elif "response_id" in event:
            assert event["response_id"] == current
    assert client.of("error") == []
    assert llm.running == set()


@pytest.mark.parametrize("wait", ["input_audio_buffer.committed", "response.created"])
def test_cancel_before_any_word_leaves_silence_and_one_done(wait: str) -> None:
    async def script(client: MemoryClient) -> None:
        await client.speak(QUESTION)
        await client.wait_for(wait)
        client.send({"type": "response.cancel"})
        await client.wait_for("response.done")
        await client.speak(SILENCE)

    asr = ScriptedRecognizer(["hello"], delay_s=0.5)
    llm = ScriptedLanguageModel([[0.5, "Too late."]])
    client = converse(script, scripted_engines(asr=asr, llm=llm))
    assert [event["response"]["status"] for event in client.of("response.done")] == ["cancelled"]
    assert client.of("response.output_audio.delta") == []
    assert client.of("error") == []


def test_vanishing_mid_reply_leaves_nothing_running() -> None:
    async def script(client: MemoryClient) -> None:
        manual(client)
        user_says(client, "go")
        client.send({"type": "response.create"})
        await client.wait_for("response.output_audio.delta")

    llm = ScriptedLanguageModel([["Word ", 0.02] * 500])
    converse(script, scripted_engines(llm=llm))
    assert llm.running == set() and len(llm.aborted) == 1


def test_an_empty_reply_says_so() -> None:
    for reply in ([], [""], ["\n\n"], ["..."]):

        async def script(client: MemoryClient) -> None:
            manual(client)
            user_says(client, "go")
            client.send({"type": "response.create"})
            await client.wait_for("response.done")

        client = converse(script, scripted_engines(llm=ScriptedLanguageModel([reply])))
        assert "Sorry" in client.of("response.done")[0]["response"]["output"][0]["content"][0]["transcript"]
        assert client.reply_audio()


def test_a_long_winded_reply_ends_at_its_last_whole_clause() -> None:
    async def script(client: MemoryClient) -> None:
        manual(client)
        user_says(client, "go")
        client.send({"type": "response.create"})
        await client.wait_for("response.done")
        client.send({"type": "response.create", "response": {"max_output_tokens": 2}})
        await client.wait_for("response.done", count=2)

    llm = ScriptedLanguageModel([["One is done. ", "Two is ", "not yet ", "done."]])
    config = Config(sampling=Sampling(max_tokens=3))
    client = converse(script, scripted_engines(llm=llm), config)
    own, limited = [event["response"] for event in client.of("response.done")]
    assert own["status"] == "completed"
    assert own["output"][0]["content"][0]["transcript"] == "One is done."
    assert limited["status"] == "incomplete"
    assert limited["status_details"] == {"type": "incomplete", "reason": "max_output_tokens"}


def test_timing_is_in_the_metadata() -> None:
    async def script(client: MemoryClient) -> None:
        await client.speak(QUESTION)
        await client.wait_for("response.done")

    client = converse(
        script,
        scripted_engines(
            # About 420 ms of a final pass in the silence before the endpoint.
            asr=ScriptedRecognizer(delay_s=lambda batch: 0.53 if batch[0].depth is Depth.FINAL else 0.0),
            llm=ScriptedLanguageModel([[0.05, "Hello there, ", 0.1, "friend of mine, ", 0.3, "bye."]]),
            tts=ScriptedSynthesizer(delay_s=0.07),
        ),
    )
    timing = json.loads(client.of("response.done")[0]["response"]["metadata"]["voice.latency"])
    assert timing["asr_final_ms"] == pytest.approx(110, abs=11)
    assert timing["llm_first_token_ms"] == pytest.approx(50, abs=1)
    assert timing["llm_first_clause_ms"] == pytest.approx(450, abs=1)
    assert timing["tts_first_audio_ms"] == pytest.approx(70, abs=1)
    assert timing["commit_to_audio_ms"] == pytest.approx(timing["asr_final_ms"] + 450 + 70, abs=1)
    # the endpoint waits for 500 ms of silence, in windows of 32 ms and frames of 20
    assert 500 <= timing["voice_to_voice_ms"] - timing["commit_to_audio_ms"] <= 560


def test_sessions_never_see_each_other() -> None:
    async def main() -> tuple[ScriptedLanguageModel, list[str]]:
        llm = ScriptedLanguageModel(lambda messages: [0.05, f"You said {messages[-1].content}."])
        engines = scripted_engines(llm=llm)

        async def one(word: str) -> str:
            async with MemoryClient.connect(engines) as client:
                for _ in range(3):
                    manual(client)
                    user_says(client, word)
                    client.send({"type": "response.create"})
                    await client.wait_for("response.done", count=len(client.of("response.done")) + 1)
                return str(client.of("response.output_audio_transcript.done")[-1]["transcript"])

        import asyncio

        words = [f"word{number}" for number in range(8)]
        return llm, await asyncio.gather(*(one(word) for word in words))

    llm, said = run_virtual(main())
    assert said == [f"You said word{number}." for number in range(8)]
    assert llm.most_running == 8
    for prompt in llm.prompts:
        text = " ".join(message.content for message in prompt[1:])
        assert len({word for word in text.replace(".", "").split() if word.startswith("word")}) == 1


@pytest.mark.parametrize(("kind", "bytes_a_second"), [("audio/pcmu", 8000), ("audio/pcma", 8000), ("audio/pcm", 48000)])
def test_g711_goes_both_ways(kind: str, bytes_a_second: int) -> None:
    from voice.audio.formats import pcm16_to_float
    from voice.audio.g711 import alaw_encode, ulaw_encode
    from voice.audio.resample import resample

    async def script(client: MemoryClient) -> None:
        wire_format = {"type": kind}
        audio = {"input": {"turn_detection": None, "format": wire_format}, "output": {"format": wire_format}}
        client.send({"type": "session.update", "session": {"type": "realtime", "audio": audio}})
        pcm = speech_pcm24k(1.0)
        if kind != "audio/pcm":
            samples = (resample(pcm16_to_float(pcm), 24_000, 8_000) * 32767).astype("<i2")
            pcm = ulaw_encode(samples) if kind == "audio/pcmu" else alaw_encode(samples)
        client.append(pcm)
        client.send({"type": "input_audio_buffer.commit"})
        client.send({"type": "response.create"})
        await client.wait_for("response.done")

    asr = ScriptedRecognizer()
    client = converse(script, scripted_engines(asr=asr, tts=ScriptedSynthesizer(seconds_a_character=0.1)))
    assert abs(len(asr.heard[0]) - 16000) < 400
    # "Hello there." is 12 characters of 0.1 s, less the synthesizer's leading silence (none here)
    assert abs(len(client.reply_audio()) / bytes_a_second - 1.2) < 0.05
