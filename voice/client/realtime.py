"""One connection to a service that speaks the OpenAI Realtime protocol."""

from __future__ import annotations

import asyncio
import base64
import re
import socket
import ssl
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
    InvalidURI,
    ProxyError,
)

from voice.audio import float_to_pcm16
from voice.client.address import is_loopback, place_of, realtime_url
from voice.errors import ServiceError
from voice.protocol.session import PCM_RATE_HZ

WIRE_HZ = PCM_RATE_HZ
"""The only PCM rate that the protocol has."""

_MAX_MESSAGE_BYTES = 24 * 1024 * 1024
_OPEN_TIMEOUT_S = 15.0
_CLOSE_TIMEOUT_S = 2.0


def audio_session(instructions: str | None = None) -> dict[str, Any]:
    """A session for spoken conversation: PCM both ways, transcripts on, turn detection as the server likes it best."""
    pcm = {"type": "audio/pcm", "rate": WIRE_HZ}
    session: dict[str, Any] = {
        "type": "realtime",
        "output_modalities": ["audio"],
        "audio": {"input": {"format": pcm, "transcription": {"model": "whisper-1"}}, "output": {"format": pcm}},
    }
    if instructions is not None:
        session["instructions"] = instructions
    return session


class RealtimeClient:
    """Sends audio and events, and iterates over the events that the server sends (dicts, in order).

    Every failure is a ServiceError whose message is one line for people. One task sends, one iterates.
    """

    def __init__(self, connection: ClientConnection, url: str, session: dict[str, Any]) -> None:
        """Use ``RealtimeClient.connect``."""
        self._connection = connection
        self._closing = False
        self.url = url
        self.session = session
        """The session as the server described it when the connection opened."""

    @classmethod
    async def connect(
        cls, url: str, *, api_key: str | None = None, timeout_s: float = _OPEN_TIMEOUT_S
    ) -> RealtimeClient:
        """Connects and waits for ``session.created``.

        ``url`` is what ``realtime_url`` takes. Raises ServiceError when nothing listens there, when the server
        refuses or is not ready (with the reason it gives), or when it does not speak the protocol.
        """
        address = realtime_url(url)
        place = place_of(address)
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else None
        try:
            connection = await connect(
                address,
                additional_headers=headers,
                compression=None,  # base64 of sound does not shrink enough to be worth the time
                proxy=None if is_loopback(address) else True,
                max_size=_MAX_MESSAGE_BYTES,
                open_timeout=timeout_s,
                close_timeout=_CLOSE_TIMEOUT_S,
            )
        except (OSError, InvalidHandshake, InvalidURI, TimeoutError, EOFError) as error:
            raise ServiceError(_why_no_connection(place, error)) from None
        try:
            async with asyncio.timeout(timeout_s):
                first = _decode(await connection.recv())
        except TimeoutError:
            await connection.close()
            raise ServiceError(f"{place} accepted the connection and then said nothing for {timeout_s:g} s") from None
        except ConnectionClosed as closed:
            raise ServiceError(_why_closed(place, closed)) from None
        if first.get("type") == "error":
            await connection.close()
            raise ServiceError(f"{place} refused: {error_message(first)}")
        if first.get("type") != "session.created":
            await connection.close()
            raise ServiceError(f"{place} does not speak the Realtime protocol (it began with {first.get('type')!r})")
        return cls(connection, address, first.get("session") or {})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def configure(self, session: dict[str, Any]) -> None:
        """Sends ``session.update``; the server answers with a ``session.updated`` event."""
        await self.send({"type": "session.update", "session": session})

    async def send_audio(self, samples: NDArray[np.int16] | NDArray[np.float32]) -> None:
        """Appends mono samples at 24 kHz (int16, or float32 in [-1, 1]) to the server's input."""
        pcm = samples.astype("<i2") if samples.dtype == np.int16 else float_to_pcm16(samples.astype(np.float32))
        audio = base64.b64encode(pcm.tobytes()).decode("ascii")
        await self.send({"type": "input_audio_buffer.append", "audio": audio})

    async def send(self, event: dict[str, Any]) -> None:
        """Sends one event, and waits while the server is slow to take it."""
        try:
            await self._connection.send(msgspec.json.encode(event).decode())
        except ConnectionClosed as closed:
            raise ServiceError(_why_closed(place_of(self.url), closed)) from None

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        """The server's events until ``close``; ServiceError when the server drops the connection."""
        while True:
            try:
                message = await self._connection.recv()
            except ConnectionClosed as closed:
                if self._closing:
                    return
                raise ServiceError(_why_closed(place_of(self.url), closed)) from None
            yield _decode(message)

    async def close(self) -> None:
        """Says goodbye; waits at most two seconds for the other side. May be called twice."""
        self._closing = True
        await self._connection.close()


def audio_of(event: dict[str, Any]) -> NDArray[np.int16]:
    """The samples of a ``response.output_audio.delta`` event, 24 kHz mono."""
    try:
        data = base64.b64decode(event.get("delta") or "", validate=True)
        return np.frombuffer(data, dtype="<i2").astype(np.int16)
    except ValueError:
        raise ServiceError("the server sent audio that is no base64 of whole PCM16 samples") from None


def error_message(event: dict[str, Any]) -> str:
    """The message of an ``error`` event, on one line."""
    error = event.get("error")
    if isinstance(error, dict):
        return one_line(str(error.get("message") or error.get("code") or error.get("type") or "an unnamed error"))
    return one_line(str(error or "an unnamed error"))


def one_line(text: str, limit: int = 300) -> str:
    """Text from elsewhere made fit for a one-line message."""
    joined = " ".join(text.split())
    return joined if len(joined) <= limit else joined[: limit - 1] + "…"


def _decode(message: str | bytes) -> dict[str, Any]:
    try:
        event = msgspec.json.decode(message)
    except msgspec.DecodeError:
        raise ServiceError("the server sent something that is not JSON") from None
    if not isinstance(event, dict):
        raise ServiceError("the server sent JSON that is not an event")
    return event


def _why_no_connection(place: str, error: Exception) -> str:
    if isinstance(error, InvalidStatus):
        return _why_refused(place, error)
    if isinstance(error, TimeoutError):
        return f"{place} did not answer in time: is it the right address, and is the machine overloaded?"
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return f"nothing is listening at {place}: start the service with `voice serve`, or leave out --url"
    if isinstance(error, socket.gaierror):
        return f"{place} cannot be found: check the host name"
    if isinstance(error, ssl.SSLError):
        return f"{place} failed the TLS handshake: {one_line(str(error))} (for a service without TLS use ws://)"
    if isinstance(error, ProxyError):
        return f"{place} cannot be reached through the proxy: {one_line(str(error))}"
    if isinstance(error, (InvalidHandshake, InvalidMessage, EOFError)):
        return f"{place} is not a voice service: something else listens there ({one_line(str(error))})"
    return f"{place} cannot be reached: {one_line(str(error)) or type(error).__name__}"


def _why_refused(place: str, error: InvalidStatus) -> str:
    status = error.response.status_code
    reason = _reason_in(bytes(error.response.body or b""))
    if status in (401, 403):
        return f"{place} refused the connection ({status}): {reason or 'it wants an API key (--api-key)'}"
    if status == 404:
        return f"{place} has no realtime endpoint (404): check the address; a voice service answers at /v1/realtime"
    if status in (429, 503):
        return f"{place} cannot serve now ({status}): {reason or 'try again in a moment'}"
    return f"{place} refused the connection ({status}){': ' + reason if reason else ''}"


def _reason_in(body: bytes) -> str:
    """The reason that a refusal's body gives, be it JSON or text."""
    text = body.decode("utf-8", "replace").strip()
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return "" if re.match(r"\s*<", text) else one_line(text)
    if isinstance(found, dict):
        error = found.get("error")
        if isinstance(error, dict):
            return one_line(str(error.get("message") or ""))
        for key in ("reason", "message", "detail", "error"):
            if found.get(key):
                return one_line(str(found[key]))
    return one_line(text)


def _why_closed(place: str, closed: ConnectionClosed) -> str:
    frame = closed.rcvd
    if frame is None:
        return f"the connection to {place} was lost: the server has gone, or the network has"
    reason = f": {one_line(frame.reason)}" if frame.reason else ""
    return f"{place} closed the connection (code {frame.code}{reason})"
