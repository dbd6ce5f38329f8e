"""Conversation items: messages, function calls and their outputs, and the events that manage them."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from voice.protocol.base import ClientEventBase, ProtocolError, ServerEventBase

ItemStatus = Literal["completed", "incomplete", "in_progress"]
ItemType = Literal["message", "function_call", "function_call_output"]
Role = Literal["system", "user", "assistant"]


class ContentPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a message. A user's ``input_audio`` carries ``transcript`` always, ``null`` until it is known."""

    type: str
    text: str | UnsetType = UNSET
    transcript: str | UnsetType | None = UNSET


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the conversation, as clients see it."""

    id: str
    type: ItemType
    status: ItemStatus = "completed"
    object: Literal["realtime.item"] = "realtime.item"
    role: Role | UnsetType = UNSET
    content: tuple[ContentPart, ...] | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    arguments: str | UnsetType = UNSET
    output: str | UnsetType = UNSET


class NewPart(msgspec.Struct, frozen=True, kw_only=True):
    """A content part as clients send it: any optional may be null."""

    type: str
    text: str | None = None
    transcript: str | None = None
    audio: str | None = None


class NewItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item as clients send it. Its id, where given, is kept verbatim."""

    type: str
    id: str | None = None
    role: str | None = None
    content: tuple[NewPart, ...] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | None = None


class ItemCreate(ClientEventBase, frozen=True, kw_only=True, tag="conversation.item.create"):
    """Adds an item: at the end, at the front (``previous_item_id="root"``) or after another."""

    item: NewItem
    previous_item_id: str | None = None


class ItemRetrieve(ClientEventBase, frozen=True, kw_only=True, tag="conversation.item.retrieve"):
    """Asks for an item as it is now."""

    item_id: str


class ItemDelete(ClientEventBase, frozen=True, kw_only=True, tag="conversation.item.delete"):
    """Removes an item from the conversation."""

    item_id: str


class ItemTruncate(ClientEventBase, frozen=True, kw_only=True, tag="conversation.item.truncate"):
    """Says that only the first ``audio_end_ms`` of an assistant item were heard."""

    item_id: str
    audio_end_ms: int | float
    content_index: int = 0


class ItemAdded(ServerEventBase, frozen=True, kw_only=True, tag="conversation.item.added"):
    """An item entered the conversation; a response's item enters empty and in progress."""

    item: Item
    previous_item_id: str | None = None


class ItemDone(ServerEventBase, frozen=True, kw_only=True, tag="conversation.item.done"):
    """An item will not change any more by itself."""

    item: Item
    previous_item_id: str | None = None


class ItemRetrieved(ServerEventBase, frozen=True, kw_only=True, tag="conversation.item.retrieved"):
    """The answer to ``retrieve``; long audio is never repeated."""

    item: Item


class ItemDeleted(ServerEventBase, frozen=True, kw_only=True, tag="conversation.item.deleted"):
    """The item is gone."""

    item_id: str


class ItemTruncated(ServerEventBase, frozen=True, kw_only=True, tag="conversation.item.truncated"):
    """The item now ends at ``audio_end_ms``."""

    item_id: str
    audio_end_ms: int
    content_index: int = 0


_INPUT_TEXT_TYPES = {"input_text", "text"}
_OUTPUT_TEXT_TYPES = {"output_text", "text"}
_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}


def item_from_client(new: NewItem, item_id: str) -> Item:
    """The conversation's own form of an item that a client sent.

    Raises:
        ProtocolError: code ``invalid_value`` when the kind, role or content of the item is not supported.
    """
    if new.type == "function_call_output":
        if new.call_id is None:
            raise ProtocolError("a function_call_output needs call_id", code="invalid_value", param="item.call_id")
        return Item(id=item_id, type="function_call_output", call_id=new.call_id, output=new.output or "")
    if new.type == "function_call":
        if new.call_id is None or new.name is None:
            raise ProtocolError("a function_call needs call_id and name", code="invalid_value", param="item")
        return Item(
            id=item_id, type="function_call", call_id=new.call_id, name=new.name, arguments=new.arguments or "{}"
        )
    if new.type != "message":
        raise ProtocolError(
            f"items of type {new.type!r} are not supported; use message, function_call or function_call_output",
            code="invalid_value",
            param="item.type",
        )
    role = _ROLES.get(new.role or "")
    if role is None:
        raise ProtocolError("role must be system, user or assistant", code="invalid_value", param="item.role")
    parts = tuple(_part_from_client(part, role) for part in new.content or ())
    return Item(id=item_id, type="message", role=role, content=parts)


def _part_from_client(part: NewPart, role: str) -> ContentPart:
    if role == "assistant":
        if part.type in _OUTPUT_TEXT_TYPES:
            return ContentPart(type="output_text", text=part.text or "")
        if part.type in ("output_audio", "audio"):
            return ContentPart(type="output_audio", transcript=part.transcript or "")
    elif part.type in _INPUT_TEXT_TYPES:
        return ContentPart(type="input_text", text=part.text or "")
    elif part.type == "input_audio" and role == "user":
        # Not transcribed again: clients send such items to replay a history that they have the words for.
        return ContentPart(type="input_audio", transcript=part.transcript)
    raise ProtocolError(
        f"content of type {part.type!r} is not supported in a {role} message",
        code="invalid_value",
        param="item.content",
    )
