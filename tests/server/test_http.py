"""The side doors and what is refused before the upgrade."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

from voice.config import Config, EngineConfig, ServerConfig
from voice.engines.bundle import Engines
from voice.errors import ResourceError
from voice.server.app import bind, running, url_of
from voice.server.readiness import Service
from voice.testing import scripted_engines


@asynccontextmanager
async def served(engines: Engines | None, *, max_sessions: int = 4) -> AsyncIterator[tuple[Service, str]]:
    config = Config(server=ServerConfig(port=0), engines=EngineConfig(max_sessions=max_sessions))
    service = Service(config, engines)
    listener = bind(config.server)
    async with running(service, listener):
        yield service, url_of(listener)


async def get(url: str) -> tuple[int, str, dict[str, str]]:
    def fetch() -> tuple[int, str, dict[str, str]]:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.read().decode(), dict(answer.headers)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), dict(error.headers)

    return await asyncio.to_thread(fetch)


async def test_not_ready_until_the_engines_are_there_and_says_why() -> None:
    async with served(None) as (service, url):
        service.starting = "loading the LLM"
        assert (await get(f"{url}/healthz"))[0] == 200
        status, body, _ = await get(f"{url}/readyz")
        assert (status, json.loads(body)) == (503, {"ready": False, "reason": "loading the LLM"})
        with pytest.raises(InvalidStatus) as refused:
            await connect(url.replace("http", "ws") + "/v1/realtime")
        assert refused.value.response.status_code == 503
        assert refused.value.response.headers["Retry-After"] == "5"
        assert b"loading the LLM" in refused.value.response.body
        service.engines = scripted_engines()
        assert (await get(f"{url}/readyz"))[0] == 200


async def test_metrics_are_prometheus_text() -> None:
    async with served(scripted_engines()) as (_, url):
        status, body, headers = await get(f"{url}/metrics")
        assert status == 200
        assert headers["Content-Type"].startswith("text/plain")
        for name in ("voice_sessions", "voice_llm_requests_running", "voice_commit_to_audio_seconds_bucket"):
            assert name in body


async def test_other_paths_and_plain_requests_get_a_clear_answer() -> None:
    async with served(scripted_engines()) as (_, url):
        assert (await get(f"{url}/nowhere"))[0] == 404
        status, body, _ = await get(f"{url}/v1/realtime")
        assert status == 426
        assert "WebSocket" in body


@pytest.mark.parametrize(
    ("origin", "status"), [("https://evil.example", 403), ("http://localhost:3000", 101), ("null", 403)]
)
async def test_foreign_pages_are_refused_before_the_upgrade(origin: str, status: int) -> None:
    async with served(scripted_engines()) as (_, url):
        address = url.replace("http", "ws") + "/v1/realtime"
        if status == 101:
            async with connect(address, origin=Origin(origin)):
                return
        with pytest.raises(InvalidStatus) as refused:
            await connect(address, origin=Origin(origin))
        assert refused.value.response.status_code == status


async def test_the_realtime_subprotocol_is_chosen_when_offered() -> None:
    offered = [Subprotocol("realtime"), Subprotocol("openai-insecure-api-key.secret")]
    async with served(scripted_engines()) as (_, url):
        async with connect(url.replace("http", "ws") + "/v1/realtime", subprotocols=offered) as client:
            assert client.subprotocol == "realtime"
        async with connect(url.replace("http", "ws") + "/v1/realtime?model=gpt-realtime&x=1") as client:
            assert client.subprotocol is None
            assert json.loads(await client.recv())["session"]["model"] == "gpt-realtime"


async def test_full_is_refused_before_the_upgrade_and_room_comes_back() -> None:
    async with served(scripted_engines(), max_sessions=1) as (service, url):
        address = url.replace("http", "ws") + "/v1/realtime"
        async with connect(address):
            with pytest.raises(InvalidStatus) as refused:
                await connect(address)
            assert refused.value.response.status_code == 503
        while service.sessions:
            await asyncio.sleep(0.01)
        async with connect(address) as client:
            assert json.loads(await client.recv())["type"] == "session.created"


def test_a_taken_port_is_one_clear_line() -> None:
    with bind(ServerConfig(port=0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ResourceError, match=rf"port {port} .* is taken.*--port") as raised:
            bind(ServerConfig(port=port))
        assert "\n" not in str(raised.value)


def test_a_foreign_host_is_one_clear_line() -> None:
    with pytest.raises(ResourceError, match=r"--host|choose another"):
        bind(ServerConfig(host="192.0.2.1", port=0))
