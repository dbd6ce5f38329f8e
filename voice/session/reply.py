"""One reply: LLM deltas -> clauses -> synthesizer -> events. The LLM writes on while earlier clauses are spoken."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from voice import metrics
from voice.config import Sampling
from voice.conversation import ChatMessage, Conversation, SpokenClause, fit_to_context
from voice.engines.bundle import Engines
from voice.engines.llm import LlmDelta
from voice.protocol.items import Item
from voice.protocol.response import CancelReason, StatusDetails, StatusError, Usage
from voice.session.outbox import Outbox
from voice.session.reply_events import ReplyEvents
from voice.session.speech import SpeechEncoder
from voice.text.clauses import ClauseCutter
from voice.text.spoken import to_spoken
from voice.timing import METADATA_KEY, TurnTiming

log = logging.getLogger(__name__)

EMPTY_REPLY = "Sorry, I have no answer to that."
"""Said when the LLM gives nothing that can be said: silence would leave the user waiting."""

Prompt = Callable[[], Sequence[ChatMessage]]


class Reply:
    """The work behind one response. :meth:`run` does it; :meth:`cancel` ends it at once, whatever it is doing."""

    def __init__(
        self,
        events: ReplyEvents,
        engines: Engines,
        outbox: Outbox,
        conversation: Conversation | None,
        encoder: SpeechEncoder | None,
        sampling: Sampling,
        client_limit: bool,
        timing: TurnTiming,
        clock: Callable[[], float],
    ) -> None:
        """``conversation`` None: the reply stays out of the history. ``encoder`` None: a text reply.

        ``client_limit``: the token limit is the client's own, so reaching it makes the response incomplete; the
        service's default limit only ends a long-winded reply at its last whole clause.
        """
        self.events = events
        self._engines = engines
        self._outbox = outbox
        self._conversation = conversation
        self._encoder = encoder
        self._sampling = sampling
        self._client_limit = client_limit
        self._timing = timing
        self._clock = clock
        self._clauses: list[SpokenClause] = []
        self._last: LlmDelta | None = None
        self._first_frame_at: float | None = None

    @property
    def response_id(self) -> str:
        """Identifier of the response."""
        return self.events.response_id

    async def run(self, prompt: Prompt) -> None:
        """Produces the reply to ``prompt()`` and ends the response, whether it completes or fails."""
        try:
            await self._produce(prompt())
        except Exception as error:
            self._fail(error)
            raise
        self._complete()

    def cancel(self, reason: CancelReason) -> None:
        """Ends the response now: what is unsent is taken back, nothing follows, the history keeps what was heard."""
        if self.events.closed:
            return
        self._outbox.recall(self.response_id)
        self._store("incomplete")
        if self._conversation is not None and self.events.opened and self._encoder is not None:
            self._conversation.truncate(self.events.item_id, self._heard_ms())
        self.events.close("cancelled", StatusDetails(type="cancelled", reason=reason), self._usage())
        metrics.RESPONSES.labels("cancelled").inc()

    async def _produce(self, messages: Sequence[ChatMessage]) -> None:
        clauses: asyncio.Queue[str | None] = asyncio.Queue()  # bounded by the reply's own token limit
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._write(messages, clauses))
                tasks.create_task(self._speak(clauses) if self._encoder else self._send_text(clauses))
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _write(self, messages: Sequence[ChatMessage], clauses: asyncio.Queue[str | None]) -> None:
        """Reads the LLM and hands out clauses (or, for a text reply, the deltas as they are)."""
        limit = self._engines.llm.context_tokens - self._sampling.max_tokens
        messages = fit_to_context(messages, limit, self._engines.llm.count_tokens)
        cutter = ClauseCutter()
        said_something = False
        self._timing.llm_request = self._clock()
        metrics.llm_started()
        try:
            deltas = self._engines.llm.generate(messages, self._sampling, request_id=self.response_id)
            async with contextlib.aclosing(deltas):
                async for delta in deltas:
                    self._last = delta
                    if not delta.text:
                        continue
                    if self._timing.llm_first_token is None:
                        self._timing.llm_first_token = self._clock()
                    for clause in cutter.feed(delta.text) if self._encoder else (delta.text,):
                        said_something |= self._hand_over(clause, clauses)
        finally:
            last = self._last or LlmDelta("")
            metrics.llm_ended(last.prompt_tokens, last.cached_tokens, last.completion_tokens)
        rest = cutter.flush()
        unfinished = last.finish == "length" and said_something
        if rest.strip() and not unfinished:
            said_something |= self._hand_over(rest, clauses)
        if not said_something:
            self._hand_over(EMPTY_REPLY, clauses)
        clauses.put_nowait(None)

    def _hand_over(self, clause: str, clauses: asyncio.Queue[str | None]) -> bool:
        """Queues a clause; returns whether it says anything."""
        if self._timing.llm_first_clause is None:
            self._timing.llm_first_clause = self._clock()
        clauses.put_nowait(clause)
        return bool(to_spoken(clause))

    async def _send_text(self, clauses: asyncio.Queue[str | None]) -> None:
        while (text := await clauses.get()) is not None:
            self._open()
            await self._outbox.room()
            self.events.words(text, 0.0)

    async def _speak(self, clauses: asyncio.Queue[str | None]) -> None:
        encoder = self._encoder
        assert encoder is not None
        while (clause := await clauses.get()) is not None:
            self._open()
            start_ms = encoder.sent_ms
            self.events.words(clause, start_ms / 1000)
            spoken = to_spoken(clause)
            if spoken:
                if self._timing.tts_request is None:
                    self._timing.tts_request = self._clock()
                async for audio in encoder.clause(spoken):
                    if self._timing.tts_first_audio is None:
                        self._timing.tts_first_audio = self._clock()
                    await self._send_audio(audio)
            self._clauses.append(SpokenClause(clause, start_ms, encoder.sent_ms))
        await self._send_audio(encoder.tail())

    async def _send_audio(self, samples: NDArray[np.float32]) -> None:
        encoder = self._encoder
        assert encoder is not None
        for frame in encoder.frames(samples):
            await self._outbox.room()
            if self._first_frame_at is None:
                self._first_frame_at = self._clock()
                self._timing.first_audible = self._first_frame_at + encoder.lead_s
            self.events.audio(frame)

    def _open(self) -> None:
        if self.events.opened:
            return
        previous = self._conversation.last_id if self._conversation is not None else None
        item = self.events.open(previous)
        if self._conversation is not None:
            self._conversation.append(item)

    def _complete(self) -> None:
        if self.events.closed:
            return
        self._store("completed")
        if self._last is not None and self._last.finish == "length" and self._client_limit:
            details = StatusDetails(type="incomplete", reason="max_output_tokens")
            self.events.close("incomplete", details, self._usage(), self._metadata())
            metrics.RESPONSES.labels("incomplete").inc()
        else:
            self.events.close("completed", None, self._usage(), self._metadata())
            metrics.RESPONSES.labels("completed").inc()
        metrics.observe_turn(self._timing)

    def _fail(self, error: Exception) -> None:
        if self.events.closed:
            return
        self._store("incomplete")
        message = str(error) or type(error).__name__
        details = StatusDetails(
            type="failed", error=StatusError(type="server_error", code="engine_failed", message=message)
        )
        self.events.close("failed", details, self._usage())
        metrics.RESPONSES.labels("failed").inc()

    def _store(self, status: str) -> None:
        """Puts the item as it stands into the history."""
        if self._conversation is None or not self.events.opened:
            return
        item: Item = self.events.item("completed" if status == "completed" else "incomplete")
        self._conversation.update(item)
        if self._encoder is not None:
            # A clause that is being spoken right now has no end yet: what was sent of it is its length so far.
            spoken = sum(len(clause.text) for clause in self._clauses)
            rest = self.events.text[spoken:]
            start_ms = self._clauses[-1].end_ms if self._clauses else 0.0
            open_clause = [SpokenClause(rest, start_ms, max(self._encoder.sent_ms, start_ms) + 1.0)] if rest else []
            self._conversation.speak(item.id, [*self._clauses, *open_clause])

    def _heard_ms(self) -> float:
        """Reply audio that can have been heard by now: a client plays what it has got, no faster than real time."""
        if self._encoder is None or self._first_frame_at is None:
            return 0.0
        return min(self._encoder.sent_ms, (self._clock() - self._first_frame_at) * 1000)

    def _usage(self) -> Usage | None:
        last = self._last
        return Usage.of(last.prompt_tokens, last.cached_tokens, last.completion_tokens) if last else None

    def _metadata(self) -> dict[str, str]:
        return {METADATA_KEY: self._timing.metadata()}


def limit_sampling(sampling: Sampling, max_output_tokens: int | str) -> Sampling:
    """The sampling within a client's token limit; ``"inf"`` leaves the service's own."""
    if isinstance(max_output_tokens, int):
        return replace(sampling, max_tokens=min(max_output_tokens, 4096))
    return sampling
