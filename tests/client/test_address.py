from __future__ import annotations

import pytest

from voice.client.address import is_loopback, place_of, realtime_url
from voice.errors import ServiceError


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("ws://127.0.0.1:8765", "ws://127.0.0.1:8765/v1/realtime"),
        ("ws://127.0.0.1:8765/", "ws://127.0.0.1:8765/v1/realtime"),
        ("http://127.0.0.1:8765/v1", "ws://127.0.0.1:8765/v1/realtime"),
        ("http://127.0.0.1:8765/v1/", "ws://127.0.0.1:8765/v1/realtime"),
        ("https://voice.example/v1/realtime", "wss://voice.example/v1/realtime"),
        ("wss://voice.example/v1/realtime?model=x", "wss://voice.example/v1/realtime?model=x"),
        ("WS://Voice.Example:80", "ws://Voice.Example:80/v1/realtime"),
        ("localhost:8765", "ws://localhost:8765/v1/realtime"),
        ("http://[::1]:9000", "ws://[::1]:9000/v1/realtime"),
        ("http://proxy.example/prefix/v1/realtime", "ws://proxy.example/prefix/v1/realtime"),
    ],
)
def test_what_people_type(text: str, url: str) -> None:
    assert realtime_url(text) == url


@pytest.mark.parametrize("text", ["", "ftp://a", "ws://", "ws://host:port", "ws://a b", "http://127.0.0.1:99999"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ServiceError, match="is not the address of a voice service"):
        realtime_url(text)


def test_places() -> None:
    assert place_of("ws://user:secret@127.0.0.1:8765/v1/realtime?key=secret") == "127.0.0.1:8765"
    assert place_of("wss://voice.example/v1/realtime") == "voice.example:443"
    assert place_of("ws://[::1]/v1/realtime") == "[::1]:80"


def test_loopback() -> None:
    assert is_loopback("ws://127.0.0.1:1") and is_loopback("ws://[::1]:1") and is_loopback("ws://localhost:1")
    assert not is_loopback("ws://voice.example") and not is_loopback("ws://10.0.0.1")
