"""The client against the real server, whose engines are scripted: both ends of the protocol meet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import voice.client
from voice.audio import last_audible, pcm16_to_float
from voice.client import Conversation, Question, RealtimeClient
from voice.client.testing import tone
from voice.config import Config, ServerConfig
from voice.errors import ServiceError
from voice.server.app import bind, running, url_of
from voice.server.readiness import Service
from voice.testing import ScriptedLanguageModel, ScriptedRecognizer, ScriptedSynthesizer, scripted_engines


@asynccontextmanager
async def serving(service: Service) -> AsyncIterator[str]:
    listener = bind(service.config.server)
    async with running(service, listener):
        yield url_of(listener)


def scripted(llm: ScriptedLanguageModel) -> Service:
    engines = scripted_engines(
        asr=ScriptedRecognizer(("What is the capital?", "And the river?")),
        llm=llm,
        tts=ScriptedSynthesizer(seconds_a_character=0.01),
    )
    return Service(Config(server=ServerConfig(port=0)), engines=engines)


def question(name: str) -> Question:
    return Question(name, tone(0.4), 9599)


async def test_two_turns_of_one_conversation() -> None:
    llm = ScriptedLanguageModel((("It", " is", " Paris."), ("The", " Seine.")))
    async with serving(scripted(llm)) as url, await RealtimeClient.connect(url) as client:
        first, second = await Conversation(client).run([question("1.wav"), question("2.wav")])
    assert (first.transcript, first.reply) == ("What is the capital?", "It is Paris.")
    assert (second.transcript, second.reply) == ("And the river?", "The Seine.")
    for report in (first, second):
        assert 0 <= report.commit_to_audio_ms < report.voice_to_voice_ms
        assert all(value is not None for value in report.stages.values()), report.stages
        assert last_audible(pcm16_to_float(report.audio), 24_000) is not None
        assert report.segments == 1
    assert any("Paris" in message.content for message in llm.prompts[1])  # the second turn knows the first


async def test_an_engine_that_fails_is_one_line() -> None:
    llm = ScriptedLanguageModel(((RuntimeError("out of memory"),),))
    async with serving(scripted(llm)) as url, await RealtimeClient.connect(url) as client:
        with pytest.raises(ServiceError, match=r"1\.wav") as caught:
            await Conversation(client).run([question("1.wav")])
    assert "\n" not in str(caught.value)


async def test_a_server_that_is_still_loading_says_so() -> None:
    service = Service(Config(server=ServerConfig(port=0)), starting="loading the LLM")
    async with serving(service) as url:
        with pytest.raises(ServiceError, match=r"cannot serve now \(503\): not ready: loading the LLM"):
            await RealtimeClient.connect(url)


def test_names_are_imported_on_first_use() -> None:
    assert all(getattr(voice.client, name) is not None for name in voice.client.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = voice.client.nothing
