"""From what people type after --url to the WebSocket address of the service."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit, urlunsplit

from voice.config import DEFAULT_PORT
from voice.errors import ServiceError

REALTIME_PATH = "/v1/realtime"
_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}


def realtime_url(text: str) -> str:
    """The ws:// or wss:// address of the realtime endpoint.

    Takes ws, wss, http and https, with or without /v1 or /v1/realtime, and bare ``host:port``.
    Raises ServiceError, one line, for what is no address.
    """
    wanted = f"{text!r} is not the address of a voice service: write it like ws://127.0.0.1:{DEFAULT_PORT}"
    full = text.strip() if "://" in text else f"ws://{text.strip()}"
    try:
        parts = urlsplit(full)
        _ = parts.port  # raises when it is no number
    except ValueError:
        raise ServiceError(wanted) from None
    scheme = _SCHEMES.get(parts.scheme.lower())
    if scheme is None or not parts.hostname or any(character.isspace() for character in full):
        raise ServiceError(wanted)
    path = parts.path.rstrip("/")
    if path in ("", "/v1"):
        path = REALTIME_PATH
    return urlunsplit((scheme, parts.netloc, path, parts.query, ""))


def place_of(url: str) -> str:
    """``host:port`` of an address, for messages (no user name, no query, no key)."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme in ("wss", "https") else 80)
    host = parts.hostname or ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(url: str) -> bool:
    """Whether the address is on this machine (then no proxy is asked)."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
