"""Client events in: what decodes, and which error answers what does not."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice.protocol import errors, input_audio, items, response, session, wire
from voice.protocol.base import ProtocolError

VALID: list[tuple[dict[str, Any], type]] = [
    ({"type": "session.update", "session": {"type": "realtime"}}, session.SessionUpdate),
    ({"type": "input_audio_buffer.append", "audio": "AAAA"}, input_audio.Append),
    ({"type": "input_audio_buffer.commit"}, input_audio.Commit),
    ({"type": "input_audio_buffer.clear"}, input_audio.Clear),
    ({"type": "conversation.item.create", "item": {"type": "message", "role": "user"}}, items.ItemCreate),
    ({"type": "conversation.item.retrieve", "item_id": "a"}, items.ItemRetrieve),
    ({"type": "conversation.item.delete", "item_id": "a"}, items.ItemDelete),
    ({"type": "conversation.item.truncate", "item_id": "a", "content_index": 0, "audio_end_ms": 5}, items.ItemTruncate),
    ({"type": "response.create"}, response.ResponseCreate),
    ({"type": "response.create", "response": None}, response.ResponseCreate),
    ({"type": "response.create", "response": {"instructions": None, "metadata": {"a": "b"}}}, response.ResponseCreate),
    ({"type": "response.cancel", "response_id": None}, response.ResponseCancel),
    ({"type": "output_audio_buffer.clear"}, response.OutputAudioBufferClear),
]


@pytest.mark.parametrize(("event", "kind"), VALID)
def test_every_client_event_decodes(event: dict[str, Any], kind: type) -> None:
    decoded = wire.decode(json.dumps({**event, "event_id": "mine", "unknown_extra": [1]}))
    assert isinstance(decoded, kind)
    assert decoded.event_id == "mine"


def test_every_client_event_type_is_covered_here() -> None:
    assert {event["type"] for event, _ in VALID} == wire.CLIENT_EVENT_TYPES


@pytest.mark.parametrize(
    ("text", "code", "event_id"),
    [
        ("{", "invalid_json", None),
        ("", "invalid_json", None),
        ("\udcff", "invalid_json", None),
        ("[]", "invalid_value", None),
        ('{"type":5}', "invalid_value", None),
        ('{"type":"no.such","event_id":"e1"}', "unknown_event", "e1"),
        ('{"type":"input_audio_buffer.append","audio":5,"event_id":"e2"}', "invalid_audio", "e2"),
        ('{"type":"conversation.item.delete","event_id":"e3"}', "invalid_value", "e3"),
        (
            '{"type":"conversation.item.truncate","item_id":"a","audio_end_ms":"x","event_id":"e4"}',
            "invalid_value",
            "e4",
        ),
    ],
)
def test_bad_messages_name_the_fault_and_the_event(text: str, code: str, event_id: str | None) -> None:
    with pytest.raises(ProtocolError) as raised:
        wire.decode(text.encode("utf-8", "surrogatepass"))
    assert (raised.value.code, raised.value.event_id) == (code, event_id)


@given(st.text() | st.binary())
def test_no_message_does_anything_but_decode_or_raise_a_protocol_error(message: str | bytes) -> None:
    try:
        wire.decode(message if isinstance(message, bytes) else message.encode("utf-8", "surrogatepass"))
    except ProtocolError as error:
        assert error.code in {"invalid_json", "invalid_value", "unknown_event", "invalid_audio"}


@pytest.mark.parametrize("audio", ["@@@", "AAA", "", "AAAA\n", "ÀAAA"])
def test_bad_base64_is_refused(audio: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        input_audio.Append(audio=audio).decode()
    assert raised.value.code == "invalid_audio"


def test_good_base64_gives_the_bytes() -> None:
    assert input_audio.Append(audio=base64.b64encode(b"\x01\x02\x03").decode()).decode() == b"\x01\x02\x03"


def test_server_events_carry_distinct_ids_and_omit_absent_fields() -> None:
    item = items.Item(
        id="i", type="message", role="user", content=(items.ContentPart(type="input_audio", transcript=None),)
    )
    first = json.loads(wire.encode(items.ItemAdded(item=item)))
    second = json.loads(wire.encode(items.ItemAdded(item=item)))
    assert first["event_id"] != second["event_id"]
    # null only where clients want it: a user's transcript must be there, an absent name must not
    assert first["item"]["content"] == [{"type": "input_audio", "transcript": None}]
    assert "name" not in first["item"] and "call_id" not in first["item"]
    assert first["previous_item_id"] is None


def test_error_event_points_at_the_client_event() -> None:
    error = ProtocolError("bad", code="invalid_value", param="x")
    sent = json.loads(wire.encode(errors.ErrorEvent.of(error, "e9")))
    assert sent["error"] == {
        "type": "invalid_request_error",
        "message": "bad",
        "code": "invalid_value",
        "param": "x",
        "event_id": "e9",
    }
