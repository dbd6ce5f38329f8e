"""The HTTP engine against a server on loopback that speaks (or breaks) the OpenAI chat protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from voice.config import Sampling
from voice.conversation import ChatMessage
from voice.engines.openai_engine import OpenAiEngine
from voice.errors import ServiceError

MESSAGES = [ChatMessage("system", "Be brief."), ChatMessage("user", "Hi")]


class ChatServer:
    """Answers every request with a listed body, chunk by chunk; remembers what it was asked."""

    def __init__(self, chunks: list[str], *, status: str = "200 OK", models: str = '{"data":[{"id":"m1"}]}') -> None:
        self.chunks = chunks
        self.status = status
        self.models = models
        self.requests: list[tuple[str, dict[str, object]]] = []
        self.hung_up = asyncio.Event()
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next((int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length")), 0)
        body = json.loads(await reader.readexactly(length)) if length else {}
        self.requests.append((head, body))
        if head.startswith("GET"):
            writer.write(f"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{self.models}".encode())
        else:
            writer.write(f"HTTP/1.1 {self.status}\r\nConnection: close\r\n\r\n".encode())
            for chunk in self.chunks:
                if chunk == "WAIT":
                    await writer.drain()
                    await reader.read()  # until the client hangs up
                    self.hung_up.set()
                    break
                writer.write(chunk.encode())
        writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ChatServer]:
        server = await asyncio.start_server(self.handle, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with server:
            yield self


def delta(text: str, finish: str | None = None) -> str:
    return f"data: {json.dumps({'choices': [{'delta': {'content': text}, 'finish_reason': finish}]})}\n\n"


async def test_it_streams_and_counts() -> None:
    usage = {"usage": {"prompt_tokens": 20, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 16}}}
    chunks = [delta("Hel"), ": a comment\n\n", delta("lo."), delta("", "stop"), f"data: {json.dumps(usage)}\n\n"]
    async with ChatServer([*chunks, "data: [DONE]\n\n"]).running() as server:
        engine = await OpenAiEngine.connect(server.url + "/", None, "secret", 4096)
        assert engine.name == "m1"
        got = [item async for item in engine.generate(MESSAGES, Sampling(max_tokens=9), request_id="r")]
        await engine.close()
    assert "".join(item.text for item in got) == "Hello."
    last = got[-1]
    assert (last.finish, last.prompt_tokens, last.cached_tokens, last.completion_tokens) == ("stop", 20, 16, 2)
    head, body = server.requests[-1]
    assert "POST /v1/chat/completions" in head and "Bearer secret" in head
    assert body["max_tokens"] == 9 and body["stream"] is True
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]


async def test_the_token_limit_is_reported() -> None:
    async with ChatServer([delta("One"), delta("", "length"), "data: [DONE]\n\n"]).running() as server:
        engine = await OpenAiEngine.connect(server.url, "m2", None, 4096)
        got = [item async for item in engine.generate(MESSAGES, Sampling(), request_id="r")]
        await engine.close()
    assert got[-1].finish == "length"
    assert len(server.requests) == 1  # a named model needs no look at the list


async def test_closing_the_stream_hangs_up() -> None:
    async with ChatServer([delta("One"), "WAIT"]).running() as server:
        engine = await OpenAiEngine.connect(server.url, "m", None, 4096)
        stream = engine.generate(MESSAGES, Sampling(), request_id="r")
        async for _ in stream:
            break
        await stream.aclose()
        await asyncio.wait_for(server.hung_up.wait(), 2)
        await engine.close()


@pytest.mark.parametrize(
    ("chunks", "status", "expected"),
    [
        (['{"error":"no such model"}'], "404 Not Found", "answered 404: .*no such model"),
        (["data: {broken\n\n"], "200 OK", "failed"),
        (["data: 5\n\n"], "200 OK", "failed"),
    ],
)
async def test_failures_are_one_line(chunks: list[str], status: str, expected: str) -> None:
    async with ChatServer(chunks, status=status).running() as server:
        engine = await OpenAiEngine.connect(server.url, "m", None, 4096)
        with pytest.raises(ServiceError, match=expected) as raised:
            async for _ in engine.generate(MESSAGES, Sampling(), request_id="r"):
                pass
        await engine.close()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("models", ['{"data":[]}', "[]", "<html>"])
async def test_a_server_that_is_none_is_refused_at_the_start(models: str) -> None:
    async with ChatServer([], models=models).running() as server:
        with pytest.raises(ServiceError, match=r"lists no model|no OpenAI-compatible server"):
            await OpenAiEngine.connect(server.url, None, None, 4096)


async def test_nobody_there() -> None:
    async with ChatServer([]).running() as server:
        pass
    with pytest.raises(ServiceError, match=r"no OpenAI-compatible server at .*--llm-url"):
        await OpenAiEngine.connect(server.url, None, None, 4096)
