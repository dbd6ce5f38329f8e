"""What happened in one turn, from the server's events and the time each arrived. Pure: time is an argument."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voice.audio import first_audible, pcm16_to_float
from voice.client.player import VirtualPlayer
from voice.client.realtime import WIRE_HZ, audio_of, error_message, one_line
from voice.errors import ServiceError
from voice.timing import METADATA_KEY, STAGES

_SPLIT_TOLERANCE_S = 0.3
_SETTLE_S = 1.0
_TRANSCRIPT_WAIT_S = 3.0


@dataclass(frozen=True, slots=True)
class TurnReport:
    """One question and its answer. Times in milliseconds; audio is 24 kHz mono."""

    transcript: str
    reply: str
    voice_to_voice_ms: float
    """Last voiced sample of the question -> first audible sample of the reply, on the client's clock."""

    commit_to_audio_ms: float
    """Arrival of ``input_audio_buffer.committed`` -> first audible sample of the reply, on the client's clock."""

    stages: dict[str, float | None]
    """``STAGES``, as the server measured them; None where it said nothing."""

    server: dict[str, Any]
    """All of the server's own timing, as it came."""

    audio: NDArray[np.int16]
    underruns: int
    gap_ms: float
    segments: int
    """User turns that the server made of the question: more than one when it took a pause for the end."""


@dataclass(slots=True)
class _Reply:
    player: VirtualPlayer = field(default_factory=lambda: VirtualPlayer(WIRE_HZ))
    chunks: list[NDArray[np.int16]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    committed_at_s: float | None = None
    audible_at_s: float | None = None
    status: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def hear(self, samples: NDArray[np.int16], now_s: float) -> None:
        before = sum(chunk.size for chunk in self.chunks)
        plays_at_s = self.player.feed(samples.size, now_s)
        self.chunks.append(samples)
        if self.audible_at_s is None and samples.size:
            index = first_audible(pcm16_to_float(np.concatenate(self.chunks)), WIRE_HZ)
            if index is not None:
                # The frame that became loud may have begun in an earlier delta: that part is heard before this one.
                self.audible_at_s = plays_at_s + (index - before) / WIRE_HZ

    @property
    def finished(self) -> bool:
        return self.status in ("completed", "incomplete")


class TurnRecorder:
    """Follows one question through the server's events until its reply is complete.

    A pause inside the question may make the server end the turn early and start again when it hears the rest; then
    the transcripts are joined and the last reply is the reply.
    """

    def __init__(self, question: str, last_voiced_s: float, earlier: frozenset[str] = frozenset()) -> None:
        """``question`` names the question in messages; ``last_voiced_s`` is the position of its last voiced sample, in
        seconds of audio sent in this session; ``earlier`` are user items of earlier turns, whose news may come late."""
        self.question = question
        self._last_voiced_s = last_voiced_s
        self._earlier = earlier
        self._voiced_sent_at_s: float | None = None
        self._sent_at_s: float | None = None
        self._speaking = False
        self._heard_speech = False
        self._speech_end_s = 0.0
        self._committed_at_s: float | None = None
        self._items: dict[str, list[str]] = {}
        self._finals: dict[str, str] = {}
        self._replies: dict[str, _Reply] = {}
        self._last: _Reply | None = None
        self._done_at_s = 0.0
        self._progress_at_s = 0.0

    def last_voiced_sent(self, at_s: float) -> None:
        """The last voiced sample of the question went out (the time of its frame plus its place in it)."""
        self._voiced_sent_at_s = at_s
        self._progress_at_s = max(self._progress_at_s, at_s)

    def question_sent(self, at_s: float) -> None:
        """The whole question is out; from here on there is silence."""
        self._sent_at_s = at_s
        self._progress_at_s = max(self._progress_at_s, at_s)

    def on_event(self, event: dict[str, Any], now_s: float) -> None:
        """Takes one event. Raises ServiceError for an ``error`` event and for a turn that failed."""
        self._progress_at_s = now_s
        kind = event.get("type")
        if kind == "error":
            raise ServiceError(f"the server failed on {self.question}: {error_message(event)}")
        if kind == "input_audio_buffer.speech_started":
            self._speaking = True
            self._heard_speech = True
        elif kind == "input_audio_buffer.speech_stopped":
            self._speaking = False
            self._speech_end_s = float(event.get("audio_end_ms") or 0) / 1000.0
        elif kind == "input_audio_buffer.committed":
            self._speaking = False
            self._heard_speech = True
            self._committed_at_s = now_s
            self._items.setdefault(str(event.get("item_id")), [])
        elif kind == "conversation.item.input_audio_transcription.delta":
            if str(event.get("item_id")) not in self._earlier:
                self._items.setdefault(str(event.get("item_id")), []).append(str(event.get("delta") or ""))
        elif kind == "conversation.item.input_audio_transcription.completed":
            self._finals[str(event.get("item_id"))] = str(event.get("transcript") or "").strip()
        elif kind == "conversation.item.input_audio_transcription.failed":
            raise ServiceError(f"the server could not transcribe {self.question}: {error_message(event)}")
        elif kind == "response.created":
            self._last = self._reply_of(event.get("response") or {})
        elif kind in ("response.output_audio_transcript.delta", "response.output_text.delta"):
            self._reply_of(event).words.append(str(event.get("delta") or ""))
        elif kind == "response.output_audio.delta":
            self._reply_of(event).hear(audio_of(event), now_s)
        elif kind == "response.done":
            self._on_done(event.get("response") or {}, now_s)

    def _reply_of(self, source: dict[str, Any]) -> _Reply:
        identity = str(source.get("response_id") or source.get("id"))
        reply = self._replies.get(identity)
        if reply is None:
            reply = self._replies[identity] = _Reply(committed_at_s=self._committed_at_s)
        return reply

    def _on_done(self, response: dict[str, Any], now_s: float) -> None:
        reply = self._reply_of(response)
        reply.status = str(response.get("status"))
        reply.metadata = response.get("metadata") or {}
        self._done_at_s = now_s
        if reply.status == "failed":
            details = response.get("status_details") or {}
            raise ServiceError(f"the server failed to answer {self.question}: {error_message(details)}")

    def finished(self, now_s: float) -> bool:
        """The question is out, all of it was answered, and the answer is complete."""
        if self._sent_at_s is None or self._speaking or self._last is None or not self._last.finished:
            return False
        quiet_s = now_s - max(self._done_at_s, self._sent_at_s)
        if self._speech_end_s < self._last_voiced_s - _SPLIT_TOLERANCE_S and quiet_s < _SETTLE_S:
            return False  # the answer is to the first part of the question; the rest is still being detected
        return all(item in self._finals for item in self._items) or quiet_s >= _TRANSCRIPT_WAIT_S

    @property
    def items(self) -> frozenset[str]:
        """The user items of this turn and of all before it."""
        return self._earlier | self._items.keys()

    @property
    def plays_until_s(self) -> float | None:
        """When a listener would have heard the reply to its end, as far as it has come."""
        return self._last.player.ends_at_s if self._last else None

    def check_patience(self, now_s: float, no_speech_s: float, no_reply_s: float) -> None:
        """Raises ServiceError when the server has left the question without speech or without progress for too long."""
        if self._sent_at_s is None:
            return
        if not self._heard_speech and now_s - self._sent_at_s > no_speech_s:
            raise ServiceError(
                f"the server heard no speech in {self.question} for {no_speech_s:g} s: is it silent or very quiet?"
            )
        if now_s - self._progress_at_s > no_reply_s:
            raise ServiceError(f"the server left {self.question} without a reply for {no_reply_s:g} s: see its log")

    @property
    def transcript(self) -> str:
        """What the server understood, so far."""
        said = (self._finals.get(item, "".join(deltas).strip()) for item, deltas in self._items.items())
        return " ".join(words for words in said if words)

    def report(self) -> TurnReport:
        """The finished turn. Raises ServiceError when the reply cannot be heard."""
        reply = self._last
        if reply is None or self._voiced_sent_at_s is None:
            raise ServiceError(f"{self.question} got no reply")
        if reply.audible_at_s is None:
            raise ServiceError(f"the reply to {self.question} holds no audible sound: {one_line(''.join(reply.words))}")
        committed_at_s = reply.committed_at_s if reply.committed_at_s is not None else self._voiced_sent_at_s
        server = _server_timing(reply.metadata)
        return TurnReport(
            transcript=self.transcript,
            reply="".join(reply.words).strip(),
            voice_to_voice_ms=round((reply.audible_at_s - self._voiced_sent_at_s) * 1000.0, 1),
            commit_to_audio_ms=round((reply.audible_at_s - committed_at_s) * 1000.0, 1),
            stages={name: _number(server.get(name)) for name in STAGES},
            server=server,
            audio=np.concatenate(reply.chunks),
            underruns=reply.player.underruns,
            gap_ms=round(reply.player.gap_s * 1000.0, 1),
            segments=max(1, len(self._items)),
        )


def _server_timing(metadata: dict[str, Any]) -> dict[str, Any]:
    try:
        timing = json.loads(metadata.get(METADATA_KEY) or "{}")
    except (TypeError, ValueError):
        return {}
    return timing if isinstance(timing, dict) else {}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
