"""The input audio buffer: append, commit, clear, and what the server says about speech in it."""

from __future__ import annotations

import base64
import binascii

from voice.protocol.base import ClientEventBase, ProtocolError, ServerEventBase


class Append(ClientEventBase, frozen=True, kw_only=True, tag="input_audio_buffer.append"):
    """Audio in the session's input format, base64."""

    audio: str

    def decode(self) -> bytes:
        """The raw audio bytes.

        Raises:
            ProtocolError: code ``invalid_audio`` when the text is not strict base64 or empty.
        """
        try:
            data = base64.b64decode(self.audio, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ProtocolError(f"audio is not valid base64: {error}", code="invalid_audio", param="audio") from None
        if not data:
            raise ProtocolError("audio is empty", code="invalid_audio", param="audio")
        return data


class Commit(ClientEventBase, frozen=True, kw_only=True, tag="input_audio_buffer.commit"):
    """Makes the buffered audio a user item. Does not ask for a response."""


class Clear(ClientEventBase, frozen=True, kw_only=True, tag="input_audio_buffer.clear"):
    """Throws the buffered audio away."""


class SpeechStarted(ServerEventBase, frozen=True, kw_only=True, tag="input_audio_buffer.speech_started"):
    """The user began to speak; ``audio_start_ms`` counts audio written in this session, prefix padding included."""

    audio_start_ms: int
    item_id: str


class SpeechStopped(ServerEventBase, frozen=True, kw_only=True, tag="input_audio_buffer.speech_stopped"):
    """The user's turn is over; ``audio_end_ms`` includes the silence that ended it."""

    audio_end_ms: int
    item_id: str


class Committed(ServerEventBase, frozen=True, kw_only=True, tag="input_audio_buffer.committed"):
    """The buffered audio became the user item ``item_id``."""

    item_id: str
    previous_item_id: str | None = None


class Cleared(ServerEventBase, frozen=True, kw_only=True, tag="input_audio_buffer.cleared"):
    """The buffered audio is gone."""
