"""What a client is told of a user's words: stable words while they speak, the transcript, and where each word lies."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from voice.errors import one_line
from voice.hearing.listener import Heard
from voice.hearing.turn import TurnHearing, snapshot
from voice.protocol import transcription
from voice.protocol.base import ServerEventBase
from voice.turn.hysteresis import RATE_HZ

Send = Callable[[ServerEventBase], None]


class TranscriptEvents:
    """The transcription events of one user item. Deltas only ever add; all of them together are the transcript."""

    def __init__(self, item_id: str, send: Send, *, snapshots: bool) -> None:
        """``snapshots``: the client asked for the words that may still change, too."""
        self.item_id = item_id
        self._send = send
        self._snapshots = snapshots
        self._sent = ""
        self._shown: tuple[str, int] = ("", 0)

    def update(self, hearing: TurnHearing) -> None:
        """The words known while the user speaks."""
        shown = snapshot(hearing)
        self._extend(shown[0][: shown[1]])
        if self._snapshots and shown != self._shown:
            self._send(
                transcription.TranscriptionSnapshot(item_id=self.item_id, transcript=shown[0], stable_chars=shown[1])
            )
        self._shown = shown

    def completed(self, heard: Heard, seconds: float) -> None:
        """The transcript of ``seconds`` of audio."""
        self._extend(heard.text)
        words = tuple(
            transcription.SpokenWord(word=word.text.strip(), start_ms=_ms(word.start), end_ms=_ms(word.end))
            for word in heard.words
        )
        usage = transcription.DurationUsage(seconds=round(seconds, 3))
        self._send(
            transcription.TranscriptionCompleted(
                item_id=self.item_id, transcript=heard.text, usage=usage, words=words or msgspec.UNSET
            )
        )

    def failed(self, error: Exception) -> None:
        """There will be no transcript."""
        failure = transcription.TranscriptionError(type="server_error", code="engine_failed", message=one_line(error))
        self._send(transcription.TranscriptionFailed(item_id=self.item_id, error=failure))

    def _extend(self, text: str) -> None:
        if len(text) > len(self._sent):
            self._send(transcription.TranscriptionDelta(item_id=self.item_id, delta=text[len(self._sent) :]))
            self._sent = text


def _ms(position: int) -> int:
    return position * 1000 // RATE_HZ
