"""The whole service on real engines, over a real socket, as its users meet it."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from openai import AsyncOpenAI
from websockets.asyncio.client import connect

from tests.conftest import ENGINE_CONFIG
from tests.recognizing import hear
from tests.server.test_connection import ask, settled, until, websocket
from voice import metrics
from voice.audio.formats import float_to_pcm16, pcm16_to_float
from voice.audio.resample import resample
from voice.bench.words import word_errors
from voice.client import Conversation, Question, RealtimeClient
from voice.config import Config, ServerConfig
from voice.engines.bundle import Engines
from voice.server.app import bind, running, url_of
from voice.server.readiness import Service

pytestmark = pytest.mark.engines


@asynccontextmanager
async def serving(engines: Engines) -> AsyncIterator[tuple[Service, str]]:
    config = Config(server=ServerConfig(port=0), engines=ENGINE_CONFIG)
    service = Service(config, engines)
    listener = bind(config.server)
    async with running(service, listener):
        yield service, url_of(listener)


async def spoken(engines: Engines, text: str) -> bytes:
    """Text as PCM16 at 24 kHz, in the service's own voice."""
    pieces = [piece async for piece in engines.tts.synthesize(text, speed=1.0)]
    return float_to_pcm16(resample(np.concatenate(pieces), engines.tts.rate_hz, 24_000)).tobytes()


async def test_a_conversation_of_two_questions(engines: Engines, recordings: Path) -> None:
    questions = [Question.from_wav(str(recordings / "demo" / f"question-{name}.wav")) for name in ("capital", "river")]
    async with serving(engines) as (_, url), await RealtimeClient.connect(url) as client:
        first, second = await Conversation(client).run(questions)
    assert first.transcript == "What is the capital of France?"
    assert "Paris" in first.reply
    assert word_errors("And which river runs through it?", second.transcript).rate <= 0.25
    for report in (first, second):
        assert report.underruns == 0
        assert all(value is not None for value in report.stages.values())
    # What the voice says is what the replies read.
    speech = [resample(pcm16_to_float(report.audio), 24_000, 16_000) for report in (first, second)]
    heard = [await hear(engines, samples) for samples in speech]
    replies = f"{first.reply} {second.reply}"
    assert word_errors(replies, " ".join(heard)).rate <= 0.25, (replies, heard)


async def test_openai_python_works_unmodified(engines: Engines) -> None:
    question = "Can you tell me why the sky looks blue during the day?"
    pcm = await spoken(engines, question)
    heard, said, audio = "", "", bytearray()
    async with serving(engines) as (_, url):
        client = AsyncOpenAI(api_key="local", base_url=f"{url}/v1")
        async with client.realtime.connect(model="local") as connection:
            await connection.session.update(
                session={
                    "type": "realtime",
                    "output_modalities": ["audio"],
                    "audio": {
                        "input": {
                            "format": {"type": "audio/pcm", "rate": 24000},
                            "transcription": {"model": "local"},
                            "turn_detection": None,
                        },
                        "output": {"format": {"type": "audio/pcm", "rate": 24000}},
                    },
                }
            )
            for start in range(0, len(pcm), 2400):
                chunk = base64.b64encode(pcm[start : start + 2400]).decode()
                await connection.input_audio_buffer.append(audio=chunk)
            await connection.input_audio_buffer.commit()
            await connection.response.create()
            async for event in connection:
                if event.type == "conversation.item.input_audio_transcription.completed":
                    heard = event.transcript
                elif event.type == "response.output_audio_transcript.delta":
                    said += event.delta
                elif event.type == "response.output_audio.delta":
                    audio += base64.b64decode(event.delta)
                elif event.type == "error":
                    raise AssertionError(event.error.message)
                elif event.type == "response.done":
                    break
    assert word_errors(question, heard).rate <= 0.25  # Piper never says a sentence twice in the same way
    assert "blue" in said
    assert len(audio) > 24_000


async def test_three_sessions_at_once_share_a_batch(engines: Engines) -> None:
    texts = [f"Can you tell me why the {thing} during the day?" for thing in ("sky looks blue", "sun is hot")]
    texts.append("What is a good way to fall asleep faster at night?")
    questions = []
    for text in texts:
        samples = np.frombuffer(await spoken(engines, text), dtype="<i2")
        questions.append(Question(text, samples, len(samples)))
    async with serving(engines) as (_, url):

        async def one(question: Question) -> tuple[str, str]:
            async with await RealtimeClient.connect(url) as client:
                (report,) = await Conversation(client).run([question])
            return report.transcript, report.reply

        results = await asyncio.gather(*(one(question) for question in questions))
    for text, (transcript, _) in zip(texts, results, strict=True):
        assert word_errors(text, transcript).rate <= 0.34
    for subject, (_, reply) in zip(("blue", "sun", "sleep"), results, strict=True):
        assert subject in reply.lower()
    assert metrics.LLM_RUNNING_PEAK.collect()[0].samples[0].value >= 2


async def test_killed_clients_leave_the_real_engines_free(engines: Engines) -> None:
    pcm = await spoken(engines, "Please tell me a very long story about the sea.") + bytes(48_000)
    chance = random.Random(3)
    async with serving(engines) as (service, url):
        tasks = len(asyncio.all_tasks())

        async def doomed() -> None:
            client = await connect(websocket(url))
            await ask(client, pcm)
            await asyncio.sleep(chance.uniform(0.0, 2.0))
            client.transport.abort()

        for _ in range(2):
            await asyncio.gather(*(doomed() for _ in range(6)))
        await settled(lambda: service.sessions == 0)
        await settled(lambda: metrics.LLM_RUNNING.collect()[0].samples[0].value == 0)
        await settled(lambda: len(asyncio.all_tasks()) <= tasks)
        async with connect(websocket(url)) as client:
            await ask(client, pcm)
            assert (await until(client, "response.done"))["response"]["status"] == "completed"
