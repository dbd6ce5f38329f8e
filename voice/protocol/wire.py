"""JSON text <-> typed events."""

from __future__ import annotations

import msgspec

from voice.protocol import input_audio, items, response, session
from voice.protocol.base import ProtocolError, ServerEventBase

ClientEvent = (
    session.SessionUpdate
    | input_audio.Append
    | input_audio.Commit
    | input_audio.Clear
    | items.ItemCreate
    | items.ItemRetrieve
    | items.ItemDelete
    | items.ItemTruncate
    | response.ResponseCreate
    | response.ResponseCancel
    | response.OutputAudioBufferClear
)

CLIENT_EVENT_TYPES = frozenset(
    str(kind.__struct_config__.tag)
    for kind in (
        session.SessionUpdate,
        input_audio.Append,
        input_audio.Commit,
        input_audio.Clear,
        items.ItemCreate,
        items.ItemRetrieve,
        items.ItemDelete,
        items.ItemTruncate,
        response.ResponseCreate,
        response.ResponseCancel,
        response.OutputAudioBufferClear,
    )
)


class _Envelope(msgspec.Struct):
    type: str
    event_id: str | None = None


_decoder = msgspec.json.Decoder(ClientEvent)
_envelope_decoder = msgspec.json.Decoder(_Envelope)
_encoder = msgspec.json.Encoder()


def decode(text: str | bytes) -> ClientEvent:
    """The client event in one WebSocket text message.

    Raises:
        ProtocolError: ``invalid_json``, ``unknown_event``, ``invalid_audio`` (an append whose audio is no string) or
            ``invalid_value``, with the client's event_id where it could be read.
    """
    try:
        return _decoder.decode(text)
    except msgspec.ValidationError as error:
        failure = error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"the message is not valid JSON: {error}", code="invalid_json") from None
    try:
        envelope = _envelope_decoder.decode(text)
    except msgspec.ValidationError:
        raise ProtocolError(
            "a message must be a JSON object with a string `type` and, if any, a string `event_id`",
            code="invalid_value",
            param="type",
        ) from None
    if envelope.type not in CLIENT_EVENT_TYPES:
        raise ProtocolError(
            f"unknown event type {envelope.type!r}", code="unknown_event", param="type", event_id=envelope.event_id
        )
    message, _, path = str(failure).partition(" - at `$")
    param = path.rstrip("`").lstrip(".") or None
    code = "invalid_audio" if envelope.type == "input_audio_buffer.append" else "invalid_value"
    raise ProtocolError(message, code=code, param=param, event_id=envelope.event_id)


def encode(event: ServerEventBase) -> str:
    """One server event as the text of one WebSocket message."""
    return _encoder.encode(event).decode()
