"""What every event family shares: identifiers, the base structs, and the error that answers a bad event."""

from __future__ import annotations

import secrets

import msgspec


def new_id(prefix: str) -> str:
    """A fresh identifier such as ``item_4f1c…``; unique without coordination (96 random bits)."""
    return f"{prefix}_{secrets.token_hex(12)}"


def new_event_id() -> str:
    """The identifier that every server event must carry: clients drop events without one."""
    return new_id("event")


class ClientEventBase(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """An event from the client. ``event_id`` is any string of the client's; it comes back in errors only."""

    event_id: str | None = None


class ServerEventBase(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=False):
    """An event to the client."""

    event_id: str = msgspec.field(default_factory=new_event_id)


class ProtocolError(Exception):
    """A client event that cannot be honoured. Becomes an ``error`` event; the session goes on.

    ``code`` is one of the strings that clients test for where there is one; ``param`` names the field at fault.
    """

    def __init__(self, message: str, *, code: str, param: str | None = None, event_id: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param
        self.event_id = event_id
