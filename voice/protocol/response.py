"""Responses: asking for one, cancelling it, and the events that carry it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from voice.protocol.base import ClientEventBase, ServerEventBase
from voice.protocol.items import Item, NewItem

ResponseStatus = Literal["in_progress", "completed", "cancelled", "incomplete", "failed"]
CancelReason = Literal["turn_detected", "client_cancelled"]
Modality = Literal["audio", "text"]


class ResponseParams(msgspec.Struct, frozen=True, kw_only=True):
    """What one response does differently from the session. ``None`` means "as the session says"."""

    instructions: str | None = None
    output_modalities: tuple[Modality, ...] | None = None
    max_output_tokens: int | Literal["inf"] | None = None
    conversation: str | None = None
    input: tuple[NewItem, ...] | None = None
    metadata: dict[str, str] | None = None


class ResponseCreate(ClientEventBase, frozen=True, kw_only=True, tag="response.create"):
    """Asks for a response."""

    response: ResponseParams | None = None


class ResponseCancel(ClientEventBase, frozen=True, kw_only=True, tag="response.cancel"):
    """Stops the running response, or the one named."""

    response_id: str | None = None


class OutputAudioBufferClear(ClientEventBase, frozen=True, kw_only=True, tag="output_audio_buffer.clear"):
    """Only means something over WebRTC; ignored here."""


class StatusError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a response failed."""

    type: str
    code: str
    message: str


class StatusDetails(msgspec.Struct, frozen=True, kw_only=True):
    """How a response that did not complete ended."""

    type: ResponseStatus
    reason: str | UnsetType = UNSET
    error: StatusError | UnsetType = UNSET


class InputTokenDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt tokens by kind. Speech reaches the LLM as text."""

    text_tokens: int
    cached_tokens: int
    audio_tokens: int = 0
    image_tokens: int = 0


class OutputTokenDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Reply tokens by kind."""

    text_tokens: int
    audio_tokens: int = 0


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that a response took."""

    total_tokens: int
    input_tokens: int
    output_tokens: int
    input_token_details: InputTokenDetails
    output_token_details: OutputTokenDetails

    @classmethod
    def of(cls, prompt_tokens: int, cached_tokens: int, completion_tokens: int) -> Usage:
        """Usage of one LLM request."""
        return cls(
            total_tokens=prompt_tokens + completion_tokens,
            input_tokens=prompt_tokens,
            output_tokens=completion_tokens,
            input_token_details=InputTokenDetails(text_tokens=prompt_tokens, cached_tokens=cached_tokens),
            output_token_details=OutputTokenDetails(text_tokens=completion_tokens),
        )


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """A response as clients see it. ``audio`` echoes the output format and voice."""

    id: str
    status: ResponseStatus
    output: tuple[Item, ...]
    output_modalities: tuple[Modality, ...]
    max_output_tokens: int | Literal["inf"]
    object: Literal["realtime.response"] = "realtime.response"
    status_details: StatusDetails | None = None
    conversation_id: str | None = None
    audio: dict[str, Any] | UnsetType = UNSET
    usage: Usage | None = None
    metadata: dict[str, str] | None = None


class ResponseCreated(ServerEventBase, frozen=True, kw_only=True, tag="response.created"):
    """The first event of a response."""

    response: Response


class ResponseDone(ServerEventBase, frozen=True, kw_only=True, tag="response.done"):
    """The last event of a response, exactly once."""

    response: Response


class OutputItemAdded(ServerEventBase, frozen=True, kw_only=True, tag="response.output_item.added"):
    """An item of the response begins, empty."""

    response_id: str
    output_index: int
    item: Item


class OutputItemDone(ServerEventBase, frozen=True, kw_only=True, tag="response.output_item.done"):
    """An item of the response is complete, or was cut."""

    response_id: str
    output_index: int
    item: Item


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A content part inside response events: still named ``audio`` and ``text`` here, unlike in items."""

    type: Modality
    text: str | UnsetType = UNSET
    transcript: str | UnsetType = UNSET


class _ContentEvent(ServerEventBase, frozen=True, kw_only=True):
    response_id: str
    item_id: str
    output_index: int = 0
    content_index: int = 0


class ContentPartAdded(_ContentEvent, frozen=True, kw_only=True, tag="response.content_part.added"):
    """A content part begins."""

    part: Part


class ContentPartDone(_ContentEvent, frozen=True, kw_only=True, tag="response.content_part.done"):
    """A content part is complete, or was cut."""

    part: Part


class OutputTextDelta(_ContentEvent, frozen=True, kw_only=True, tag="response.output_text.delta"):
    """More text of a text response."""

    delta: str


class OutputTextDone(_ContentEvent, frozen=True, kw_only=True, tag="response.output_text.done"):
    """The whole text."""

    text: str


class OutputAudioTranscriptDelta(
    _ContentEvent, frozen=True, kw_only=True, tag="response.output_audio_transcript.delta"
):
    """More words of a spoken response, a little ahead of their audio; times in seconds within the item's audio."""

    delta: str
    start_time: float


class OutputAudioTranscriptDone(_ContentEvent, frozen=True, kw_only=True, tag="response.output_audio_transcript.done"):
    """All the words."""

    transcript: str


class OutputAudioDelta(_ContentEvent, frozen=True, kw_only=True, tag="response.output_audio.delta"):
    """More audio in the session's output format, base64."""

    delta: str


class OutputAudioDone(_ContentEvent, frozen=True, kw_only=True, tag="response.output_audio.done"):
    """No more audio comes."""
