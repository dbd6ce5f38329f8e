"""The client library against a real socket on loopback."""

from __future__ import annotations

import asyncio
import socket

import numpy as np
import pytest

from voice.client import RealtimeClient, audio_session
from voice.client.conversation import Conversation, Question
from voice.client.testing import ScriptedServer, ScriptedTurn, tone
from voice.errors import ServiceError


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_connect_configure_send_iterate_close() -> None:
    async with ScriptedServer([ScriptedTurn()]).running() as server:
        client = await RealtimeClient.connect(server.url, api_key="secret")
        assert client.session["id"] == "sess_1"
        assert server.headers[0]["Authorization"] == "Bearer secret"
        seen = []
        async with client:
            await client.configure(audio_session("Be brief."))
            await client.send_audio(tone(0.3))
            await client.send_audio(np.zeros(7200, np.float32))
            async for event in client:
                seen.append(event["type"])
                if event["type"] == "response.done":
                    await client.close()  # ends the iteration, quietly
        assert seen[:3] == ["session.updated", "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped"]
        assert seen[-1] == "response.done"
        (session,) = server.sessions
        assert session.received[0]["session"]["instructions"] == "Be brief."
        assert session.appends == 2


async def test_a_whole_conversation_over_the_socket() -> None:
    async with ScriptedServer([ScriptedTurn()]).running() as server:
        question = Question("q.wav", tone(0.2), 4799)
        async with await RealtimeClient.connect(server.url) as client:
            (report,) = await Conversation(client).run([question])
    assert report.reply == "The capital of France is Paris."
    assert report.voice_to_voice_ms > 0


async def test_nothing_listens() -> None:
    with pytest.raises(ServiceError, match=r"nothing is listening at 127\.0\.0\.1:.*voice serve"):
        await RealtimeClient.connect(f"ws://127.0.0.1:{free_port()}")


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (503, '{"ready": false, "reason": "the LLM is loading"}', r"cannot serve now \(503\): the LLM is loading"),
        (503, '{"error": {"message": "full, retry after 3 s"}}', r"cannot serve now \(503\): full, retry after 3 s"),
        (503, "warming up\n", r"cannot serve now \(503\): warming up"),
        (503, "", r"cannot serve now \(503\): try again"),
        (429, "", r"cannot serve now \(429\)"),
        (401, "", r"refused the connection \(401\): it wants an API key"),
        (403, '{"detail": "wrong origin"}', r"\(403\): wrong origin"),
        (404, "<html>no</html>", r"no realtime endpoint \(404\)"),
        (500, "<html>no</html>", r"refused the connection \(500\)$"),
    ],
)
async def test_refusals_give_their_reason(status: int, body: str, message: str) -> None:
    async with ScriptedServer(refuse=(status, body)).running() as server:
        with pytest.raises(ServiceError, match=message) as caught:
            await RealtimeClient.connect(server.url)
    assert "\n" not in str(caught.value)


async def test_something_else_listens() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail ready\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(ServiceError, match="is not a voice service"):
            await RealtimeClient.connect(f"ws://127.0.0.1:{port}")


async def test_a_dropped_connection_says_why() -> None:
    async with ScriptedServer(drop_after=1).running() as server:
        client = await RealtimeClient.connect(server.url)
        async with client:
            await client.send_audio(tone(0.1))
            with pytest.raises(ServiceError, match=r"closed the connection \(code 1011: scripted crash\)"):
                async for _ in client:
                    pass
            with pytest.raises(ServiceError, match="1011"):
                await client.send_audio(tone(0.1))
