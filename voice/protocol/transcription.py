"""What the user said: transcription events of a user item."""

from __future__ import annotations

from typing import Literal

import msgspec

from voice.protocol.base import ServerEventBase


class DurationUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of audio transcribed: the simplest usage that every client accepts."""

    seconds: float
    type: Literal["duration"] = "duration"


class SpokenWord(msgspec.Struct, frozen=True, kw_only=True):
    """A word and its place in the session's audio, on the clock of ``audio_start_ms``."""

    word: str
    start_ms: int
    end_ms: int


class TranscriptionError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a transcription failed."""

    type: str
    code: str
    message: str


class TranscriptionDelta(
    ServerEventBase, frozen=True, kw_only=True, tag="conversation.item.input_audio_transcription.delta"
):
    """Words that will not change any more; clients append them."""

    item_id: str
    delta: str
    content_index: int = 0


class TranscriptionCompleted(
    ServerEventBase, frozen=True, kw_only=True, tag="conversation.item.input_audio_transcription.completed"
):
    """The final transcript of a user item. ``words`` is ours: clients that do not know it ignore it."""

    item_id: str
    transcript: str
    usage: DurationUsage
    content_index: int = 0
    words: tuple[SpokenWord, ...] | msgspec.UnsetType = msgspec.UNSET


class TranscriptionSnapshot(ServerEventBase, frozen=True, kw_only=True, tag="voice.input_audio_transcription.snapshot"):
    """The whole text so far, replacing the snapshot before it; only for clients that asked for "partials".

    The first ``stable_chars`` characters will not change any more.
    """

    item_id: str
    transcript: str
    stable_chars: int
    content_index: int = 0


class TranscriptionFailed(
    ServerEventBase, frozen=True, kw_only=True, tag="conversation.item.input_audio_transcription.failed"
):
    """The recogniser raised; the item stays without words."""

    item_id: str
    error: TranscriptionError
    content_index: int = 0
