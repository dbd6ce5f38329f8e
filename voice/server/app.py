"""The service: one port, one engine set, many sessions."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Sequence

from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from voice import metrics
from voice.config import Config, ServerConfig
from voice.engines.bundle import Engines, ModelFiles, load_engines
from voice.errors import ResourceError
from voice.server.connection import serve_connection
from voice.server.http import answer
from voice.server.readiness import Service

log = logging.getLogger(__name__)

SUBPROTOCOL = Subprotocol("realtime")
CLOSE_GOING_AWAY = 1001
LAG_INTERVAL_S = 0.5

Report = Callable[[str], None]
Loader = Callable[[Report], Awaitable[Engines]]


def bind(server: ServerConfig) -> socket.socket:
    """The listening socket, bound before anything slow begins.

    Raises:
        ResourceError: the port is taken, or the host is none of this machine's.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            server.host, server.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, OverflowError) as error:
        raise ResourceError(
            f"{server.host}:{server.port} is no address to listen on ({error}): check --host"
        ) from error
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise ResourceError(
                f"port {server.port} on {server.host} is taken, perhaps by another voice service: "
                "stop that one, or choose another with --port"
            ) from error
        raise ResourceError(
            f"cannot listen on {server.host}:{server.port} ({error.strerror}): choose another"
        ) from error
    listener.setblocking(False)
    return listener


@contextlib.asynccontextmanager
async def running(service: Service, listener: socket.socket):  # type: ignore[no-untyped-def]
    """Serves on ``listener`` while the block runs; sessions are closed with 1001 at its end."""

    async def handle(connection: ServerConnection) -> None:
        try:
            await serve_connection(connection, service)
        except Exception:
            log.exception("a session ended by an error")
            raise  # websockets closes with 1011

    def process_request(connection: ServerConnection, request: Request) -> Response | None:
        return answer(request, service)

    def select_subprotocol(connection: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
        # Clients that offer it fail the handshake unless exactly this one is chosen.
        return SUBPROTOCOL if SUBPROTOCOL in offered else None

    config = service.config.server
    async with serve(
        handle,
        sock=listener,
        process_request=process_request,
        select_subprotocol=select_subprotocol,
        compression=None,  # base64 audio hardly shrinks and deflate costs a core at scale
        max_size=config.max_message_bytes,
        ping_interval=config.ping_interval_s,
        ping_timeout=config.ping_interval_s,
        close_timeout=2.0,
        logger=logging.getLogger("voice.websockets"),
    ):
        yield


def url_of(listener: socket.socket) -> str:
    """The HTTP base URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def run_service(
    config: Config, listener: socket.socket, models: ModelFiles, report: Report, on_ready: Callable[[str, float], None]
) -> None:
    """Loads the engines while /healthz and /readyz already answer, then serves until SIGINT or SIGTERM.

    ``report`` gets progress lines; ``on_ready(url, seconds)`` is called when every engine has run once.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    service = Service(config)
    began = time.monotonic()

    def tell(line: str) -> None:
        service.starting = line
        report(line)

    async with running(service, listener):
        loading = asyncio.create_task(_load(config, models, tell))
        stopping = asyncio.create_task(stop.wait())
        lag = asyncio.create_task(_watch_lag())
        try:
            await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not loading.done():
                leave_while_loading()
            engines = await loading
            service.engines = engines
            on_ready(url_of(listener), time.monotonic() - began)
            await stopping
            report("stopping")
        finally:
            lag.cancel()
            stopping.cancel()
    await engines.close()


async def _load(config: Config, models: ModelFiles, tell: Report) -> Engines:
    engines = await load_engines(config.engines, models, tell)
    await engines.warm_up(config.system_prompt, config, tell)
    return engines


def leave_while_loading() -> None:
    """Ends the process at once: engines that are still loading sit in threads that nothing can interrupt."""
    for child in multiprocessing.active_children():
        child.terminate()
    os._exit(130)


async def _watch_lag() -> None:
    """Measures how late the loop runs a timer: the proof that nothing heavy sits on it."""
    while True:
        due = time.monotonic() + LAG_INTERVAL_S
        await asyncio.sleep(LAG_INTERVAL_S)
        metrics.LOOP_LAG_SECONDS.set(max(0.0, time.monotonic() - due))
