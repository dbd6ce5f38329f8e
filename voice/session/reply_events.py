"""The wire side of one response: its events in the exact order that clients rely on, each opened thing closed once.

7 ``response.created`` 8 ``output_item.added`` 9 ``conversation.item.added`` 10 ``content_part.added`` 11 deltas
12-14 ``output_audio.done``, transcript or text ``.done``, ``content_part.done`` 15 ``output_item.done``
16 ``conversation.item.done`` 17 ``response.done``
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec import UNSET

from voice.protocol import response as wire_response
from voice.protocol.base import ServerEventBase, new_id
from voice.protocol.items import ContentPart, Item, ItemAdded, ItemDone, ItemStatus
from voice.protocol.response import Modality, Part, Response, ResponseStatus, StatusDetails, Usage

Send = Callable[[ServerEventBase, str | None], None]
"""Sends an event; the second argument names the response that may recall it."""


class ReplyEvents:
    """Emits the events of one response with one message item. After :meth:`close` nothing more goes out."""

    def __init__(
        self,
        send: Send,
        *,
        modality: Modality,
        conversation_id: str | None,
        max_output_tokens: int | Literal["inf"],
        audio: dict[str, Any] | None,
        metadata: dict[str, str] | None,
    ) -> None:
        self._send = send
        self.response_id = new_id("resp")
        self.item_id = new_id("item")
        self.modality = modality
        self._conversation_id = conversation_id
        self._max_output_tokens = max_output_tokens
        self._audio = audio
        self._metadata = metadata
        self._previous_item_id: str | None = None
        self._text = ""
        self.opened = False
        self.closed = False

    @property
    def text(self) -> str:
        """The words sent so far."""
        return self._text

    def created(self) -> None:
        """The response exists."""
        self._put(wire_response.ResponseCreated(response=self._response("in_progress", ())))

    def open(self, previous_item_id: str | None) -> Item:
        """The message item begins; returns it, empty."""
        self.opened = True
        self._previous_item_id = previous_item_id
        item = self.item("in_progress")
        self._put(wire_response.OutputItemAdded(response_id=self.response_id, output_index=0, item=item))
        if self._conversation_id is not None:
            self._put(ItemAdded(item=item, previous_item_id=previous_item_id))
        part = Part(type="text", text="") if self.modality == "text" else Part(type="audio", transcript="")
        self._put(wire_response.ContentPartAdded(**self._ids(), part=part))
        return item

    def words(self, delta: str, start_s: float) -> None:
        """More words; ``start_s`` is where their audio begins in the item."""
        self._text += delta
        if self.modality == "text":
            event: ServerEventBase = wire_response.OutputTextDelta(**self._ids(), delta=delta)
        else:
            event = wire_response.OutputAudioTranscriptDelta(**self._ids(), delta=delta, start_time=round(start_s, 3))
        self._put(event, recallable=True)

    def audio(self, frame: str) -> None:
        """More audio, base64."""
        self._put(wire_response.OutputAudioDelta(**self._ids(), delta=frame), recallable=True)

    def item(self, status: ItemStatus) -> Item:
        """The message item as it stands; it has no content until it is complete or cut."""
        content: tuple[ContentPart, ...] = ()
        if status != "in_progress":
            content = (
                (ContentPart(type="output_text", text=self._text.strip()),)
                if self.modality == "text"
                else (ContentPart(type="output_audio", transcript=self._text.strip()),)
            )
        return Item(id=self.item_id, type="message", role="assistant", status=status, content=content)

    def close(
        self,
        status: ResponseStatus,
        details: StatusDetails | None,
        usage: Usage | None,
        extra_metadata: dict[str, str] | None = None,
    ) -> None:
        """Closes whatever is open and ends the response. Only the first call counts."""
        if self.closed:
            return
        output: tuple[Item, ...] = ()
        if self.opened:
            text = self._text.strip()
            item = self.item("completed" if status == "completed" else "incomplete")
            output = (item,)
            if self.modality == "text":
                self._put(wire_response.OutputTextDone(**self._ids(), text=text))
                part = Part(type="text", text=text)
            else:
                self._put(wire_response.OutputAudioDone(**self._ids()))
                self._put(wire_response.OutputAudioTranscriptDone(**self._ids(), transcript=text))
                part = Part(type="audio", transcript=text)
            self._put(wire_response.ContentPartDone(**self._ids(), part=part))
            self._put(wire_response.OutputItemDone(response_id=self.response_id, output_index=0, item=item))
            if self._conversation_id is not None:
                self._put(ItemDone(item=item, previous_item_id=self._previous_item_id))
        if extra_metadata:
            metadata = dict(self._metadata or {})
            # The client's own keys come first, within the protocol's limit of 16.
            for key, value in extra_metadata.items():
                if len(metadata) < 16:
                    metadata.setdefault(key, value)
            self._metadata = metadata
        self._put(wire_response.ResponseDone(response=self._response(status, output, details, usage)))
        self.closed = True

    def _response(
        self,
        status: ResponseStatus,
        output: tuple[Item, ...],
        details: StatusDetails | None = None,
        usage: Usage | None = None,
    ) -> Response:
        return Response(
            id=self.response_id,
            status=status,
            status_details=details,
            output=output,
            output_modalities=(self.modality,),
            max_output_tokens=self._max_output_tokens,
            conversation_id=self._conversation_id,
            audio=self._audio if self._audio is not None else UNSET,
            usage=usage,
            metadata=self._metadata,
        )

    def _ids(self) -> dict[str, Any]:
        return {"response_id": self.response_id, "item_id": self.item_id}

    def _put(self, event: ServerEventBase, *, recallable: bool = False) -> None:
        if not self.closed:
            self._send(event, self.response_id if recallable else None)
