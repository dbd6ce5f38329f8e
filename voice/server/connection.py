"""One WebSocket connection: reads messages into a session, writes its outbox, and ends both together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from voice.server.readiness import Service
from voice.session import Outbox, Session

log = logging.getLogger(__name__)


async def serve_connection(connection: ServerConnection, service: Service) -> None:
    """Serves one client until it leaves or stops reading. All work for it ends here."""
    engines = service.engines
    assert engines is not None and connection.request is not None  # refused before the upgrade otherwise
    server = service.config.server
    query = parse_qs(urlsplit(connection.request.path).query)
    outbox = Outbox(server.send_buffer_bytes)
    session = Session(
        engines,
        service.config,
        outbox,
        model=query["model"][0] if "model" in query else None,
        extensions=",".join(query.get("extensions", [])).split(","),
    )

    async def receive() -> str | bytes | None:
        try:
            return await connection.recv()
        except ConnectionClosed:
            return None

    with service.session():
        writer = asyncio.create_task(_write(connection, outbox, server.send_timeout_s))
        try:
            await session.run(receive)
        finally:
            outbox.close()
            writer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await writer


async def _write(connection: ServerConnection, outbox: Outbox, timeout_s: float) -> None:
    """Sends what the session puts out; drops a client that takes nothing for ``timeout_s``."""
    try:
        while (text := await outbox.take()) is not None:
            async with asyncio.timeout(timeout_s):
                await connection.send(text)
    except ConnectionClosed:
        pass  # the reader sees it too, and ends the session
    except TimeoutError:
        log.warning("a client took no data for %.0f s: dropped", timeout_s)
        # The peer does not read, so it would not read a close frame either: no waiting for its answer.
        connection.transport.abort()
