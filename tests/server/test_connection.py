"""Real sockets, scripted engines: clients that vanish, crawl or misbehave cost the others nothing."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.server.test_http import served
from voice.testing import ScriptedLanguageModel, scripted_engines, speech_pcm24k

QUESTION = speech_pcm24k(0.3, amplitude=0) + speech_pcm24k(0.6) + speech_pcm24k(0.6, amplitude=0)


def websocket(url: str) -> str:
    return url.replace("http", "ws") + "/v1/realtime"


async def send(client: ClientConnection, event: dict[str, Any]) -> None:
    await client.send(json.dumps(event))


async def ask(client: ClientConnection, pcm: bytes = QUESTION) -> None:
    for start in range(0, len(pcm), 4800):
        audio = base64.b64encode(pcm[start : start + 4800]).decode()
        await send(client, {"type": "input_audio_buffer.append", "audio": audio})


async def until(client: ClientConnection, kind: str) -> dict[str, Any]:
    async with asyncio.timeout(10):
        while (event := json.loads(await client.recv()))["type"] != kind:
            assert event["type"] != "error", event
        return dict(event)


async def settled(check: Any, timeout_s: float = 2.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not check():
            await asyncio.sleep(0.005)


async def test_a_turn_over_a_real_socket() -> None:
    async with served(scripted_engines()) as (_, url), connect(websocket(url)) as client:
        await ask(client)
        done = await until(client, "response.done")
        assert done["response"]["status"] == "completed"


async def test_twenty_clients_killed_at_random_moments_leave_nothing() -> None:
    llm = ScriptedLanguageModel([["Word after word, ", 0.005] * 400])
    engines = scripted_engines(llm=llm)
    chance = random.Random(7)
    async with served(engines, max_sessions=30) as (service, url):
        before = len(asyncio.all_tasks())

        async def doomed() -> None:
            client = await connect(websocket(url))
            await ask(client)
            await asyncio.sleep(chance.uniform(0.0, 0.4))
            if chance.random() < 0.5:
                client.transport.abort()  # cable pulled
            else:
                await client.close()

        await asyncio.gather(*(doomed() for _ in range(20)))
        await settled(lambda: not llm.running and service.sessions == 0)
        await settled(lambda: len(asyncio.all_tasks()) <= before)
        async with connect(websocket(url)) as client:
            await ask(client, QUESTION)
            await until(client, "response.created")
    assert llm.running == set()


async def test_a_vanished_client_costs_nothing_after_200_ms() -> None:
    llm = ScriptedLanguageModel([["Word. ", 0.02] * 1000])
    async with served(scripted_engines(llm=llm)) as (_, url):
        client = await connect(websocket(url))
        await ask(client)
        await until(client, "response.output_audio.delta")
        client.transport.abort()
        await asyncio.sleep(0.2)
        assert llm.running == set()
        assert len(llm.aborted) == 1


async def test_a_slow_reader_holds_back_its_own_reply_only() -> None:
    llm = ScriptedLanguageModel([["This is one of a great many sentences. "] * 2000])
    engines = scripted_engines(llm=llm)
    async with served(engines) as (service, url):
        slow = await connect(websocket(url), max_queue=1)
        await ask(slow)
        async with connect(websocket(url)) as healthy:
            await send(healthy, {"type": "response.create", "response": {"max_output_tokens": 2}})
            await until(healthy, "response.done")
        assert service.sessions >= 1
        slow.transport.abort()
        await settled(lambda: service.sessions == 0)


async def test_one_message_over_the_limit_closes_that_client_only() -> None:
    async with served(scripted_engines()) as (service, url):
        limit = service.config.server.max_message_bytes
        async with connect(websocket(url)) as healthy:
            big = await connect(websocket(url))
            await big.send("x" * (limit + 1))
            await big.wait_closed()
            assert big.close_code == 1009
            await ask(healthy)
            await until(healthy, "response.done")
