"""The conversation of one session: its items in order, and the chat messages that the LLM sees. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import UNSET
from msgspec.structs import replace

from voice.protocol.base import ProtocolError, new_id
from voice.protocol.items import ContentPart, Item, NewItem, item_from_client

ChatRole = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of the LLM's prompt."""

    role: ChatRole
    content: str


@dataclass(frozen=True, slots=True)
class SpokenClause:
    """A clause of a reply and where its audio lies in the item, milliseconds."""

    text: str
    start_ms: float
    end_ms: float


def heard_text(clauses: Sequence[SpokenClause], audio_end_ms: float) -> str:
    """The words whose audio had ended by ``audio_end_ms``; inside a clause, time is shared out by length of word."""
    heard = []
    for clause in clauses:
        if clause.end_ms <= audio_end_ms:
            heard.append(clause.text)
            continue
        if clause.start_ms >= audio_end_ms:
            break
        share = (audio_end_ms - clause.start_ms) / (clause.end_ms - clause.start_ms)
        budget = share * len(clause.text)
        words = []
        used = 0
        for word in clause.text.split():
            used += len(word) + 1
            if used > budget + 1:
                break
            words.append(word)
        heard.append(" ".join(words))
        break
    return "".join(heard).strip()


class Conversation:
    """Items in order. What a client cannot hear or see of an item never reaches the LLM."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._spoken: dict[str, tuple[SpokenClause, ...]] = {}

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def last_id(self) -> str | None:
        """The id of the newest item."""
        return self._items[-1].id if self._items else None

    def get(self, item_id: str, *, code: str = "invalid_value") -> Item:
        """The item.

        Raises:
            ProtocolError: with ``code``, when there is no such item.
        """
        return self._items[self._index(item_id, code)]

    def append(self, item: Item) -> str | None:
        """Adds an item of the server's own at the end; returns the id of the one before it."""
        previous = self.last_id
        self._items.append(item)
        return previous

    def create(self, new: NewItem, previous_item_id: str | None) -> tuple[Item, str | None]:
        """Adds a client's item; returns it and the id of the one before it.

        Raises:
            ProtocolError: unknown predecessor, duplicate id (``item_create_duplicate_item_id``) or unsupported content.
        """
        item_id = new.id or new_id("item")
        if any(item.id == item_id for item in self._items):
            raise ProtocolError(
                f"an item with id {item_id!r} exists already", code="item_create_duplicate_item_id", param="item.id"
            )
        item = item_from_client(new, item_id)
        if previous_item_id is None:
            place = len(self._items)
        elif previous_item_id == "root":
            place = 0
        else:
            place = self._index(previous_item_id, "invalid_value", param="previous_item_id") + 1
        before = self._items[place - 1].id if place else None
        self._items.insert(place, item)
        return item, before

    def update(self, item: Item) -> None:
        """Puts the new form of an item in its place; an item deleted meanwhile stays deleted."""
        for index, old in enumerate(self._items):
            if old.id == item.id:
                self._items[index] = item
                return

    def speak(self, item_id: str, clauses: Sequence[SpokenClause]) -> None:
        """Remembers where in the item's audio its words are."""
        self._spoken[item_id] = tuple(clauses)

    def truncate(self, item_id: str, audio_end_ms: float) -> int:
        """Cuts an assistant item to what was heard; returns the cut in ms, clamped to the audio there is.

        Raises:
            ProtocolError: no such item, or not a message of the assistant's.
        """
        item = self.get(item_id)
        if item.role != "assistant":
            raise ProtocolError("only assistant items can be truncated", code="invalid_value", param="item_id")
        clauses = self._spoken.get(item_id, ())
        length_ms = clauses[-1].end_ms if clauses else 0.0
        cut_ms = max(0.0, min(audio_end_ms, length_ms))
        if clauses and cut_ms < length_ms:
            text = heard_text(clauses, cut_ms)
            self._spoken[item_id] = (SpokenClause(text, 0.0, cut_ms),) if text else ()
            self.update(with_transcript(replace(item, status="incomplete"), text))
        return int(cut_ms)

    def delete(self, item_id: str) -> None:
        """Removes an item.

        Raises:
            ProtocolError: no such item.
        """
        del self._items[self._index(item_id, "item_delete_invalid_item_id")]
        self._spoken.pop(item_id, None)

    def messages(self, instructions: str, *, before: str | None = None) -> list[ChatMessage]:
        """The prompt: instructions, then every item with words, up to (not including) item ``before``."""
        items = []
        for item in self._items:
            if item.id == before:
                break
            items.append(item)
        return to_messages(instructions, items)

    def _index(self, item_id: str, code: str, *, param: str = "item_id") -> int:
        for index, item in enumerate(self._items):
            if item.id == item_id:
                return index
        raise ProtocolError(f"there is no item with id {item_id!r}", code=code, param=param)


def to_messages(instructions: str, items: Sequence[Item]) -> list[ChatMessage]:
    """Chat messages of a list of items; neighbours of the same role are joined, as chat templates expect."""
    messages = [ChatMessage("system", instructions)] if instructions else []
    for item in items:
        message = _message(item)
        if message is None:
            continue
        if messages and messages[-1].role == message.role:
            messages[-1] = ChatMessage(message.role, f"{messages[-1].content} {message.content}")
        else:
            messages.append(message)
    return messages


def fit_to_context(
    messages: Sequence[ChatMessage], limit: int, count: Callable[[Sequence[ChatMessage]], int]
) -> list[ChatMessage]:
    """The messages within ``limit`` tokens: the system message and the last one stay, the oldest exchanges go first.

    A last message that alone is too long is shortened from its front, since its end holds the question.
    """
    system = [message for message in messages[:1] if message.role == "system"]
    rest = list(messages[len(system) :])
    while count([*system, *rest]) > limit and len(rest) > 1:
        # Whole exchanges: the new front must be the user's, or the template may refuse it.
        del rest[0]
        while len(rest) > 1 and rest[0].role != "user":
            del rest[0]
    while rest and count([*system, *rest]) > limit:
        words = rest[-1].content.split()
        if len(words) <= 1:
            break
        rest[-1] = ChatMessage(rest[-1].role, " ".join(words[max(1, len(words) // 4) :]))
    return [*system, *rest]


def item_text(item: Item) -> str:
    """All words of a message item."""
    if item.content is UNSET:
        return ""
    parts = [part.text or part.transcript or "" for part in item.content]
    return " ".join(part.strip() for part in parts if part).strip()


def with_transcript(item: Item, text: str) -> Item:
    """The item with the words of its (first) content part replaced."""
    if item.content is UNSET or not item.content:
        return item
    first = item.content[0]
    changed = replace(first, text=text) if first.text is not UNSET else replace(first, transcript=text)
    return replace(item, content=(changed, *item.content[1:]))


def user_audio_item(item_id: str, transcript: str | None = None) -> Item:
    """A user item made of speech; its transcript is null until the recogniser is done."""
    part = ContentPart(type="input_audio", transcript=transcript)
    return Item(id=item_id, type="message", role="user", content=(part,))


def _message(item: Item) -> ChatMessage | None:
    if item.type == "function_call_output":
        return ChatMessage("tool", item.output or "") if item.output is not UNSET else None
    if item.type != "message" or item.role is UNSET:
        return None
    text = item_text(item)
    return ChatMessage(item.role, text) if text else None
