"""The ``error`` event."""

from __future__ import annotations

from typing import Literal

import msgspec

from voice.protocol.base import ProtocolError, ServerEventBase

ErrorType = Literal["invalid_request_error", "server_error"]


class ErrorDetail(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong. ``event_id`` is that of the client's event at fault."""

    type: ErrorType
    message: str
    code: str | None = None
    param: str | None = None
    event_id: str | None = None


class ErrorEvent(ServerEventBase, frozen=True, kw_only=True, tag="error"):
    """Something failed; the session goes on."""

    error: ErrorDetail

    @classmethod
    def of(cls, error: ProtocolError, event_id: str | None = None) -> ErrorEvent:
        """The answer to a client event that could not be honoured."""
        return cls(
            error=ErrorDetail(
                type="invalid_request_error",
                message=error.message,
                code=error.code,
                param=error.param,
                event_id=error.event_id or event_id,
            )
        )

    @classmethod
    def server(cls, message: str, code: str) -> ErrorEvent:
        """A failure on this side, such as an engine that raised."""
        return cls(error=ErrorDetail(type="server_error", message=message, code=code))
