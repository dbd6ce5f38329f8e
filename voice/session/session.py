"""A session: takes client events in order, keeps the conversation, and starts and cancels turns and replies."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from voice import metrics
from voice.config import Config
from voice.conversation import ChatMessage, Conversation, to_messages, user_audio_item, with_transcript
from voice.engines.bundle import Engines
from voice.errors import one_line
from voice.hearing.listener import Heard, Observer
from voice.hearing.turn import TurnHearing
from voice.protocol import errors, input_audio, items, response, session, wire
from voice.protocol.base import ProtocolError, ServerEventBase, new_id
from voice.session.ingress import Ingress
from voice.session.listening import Listening
from voice.session.outbox import Outbox
from voice.session.policy import turn_policy
from voice.session.reply import Prompt, Reply, limit_sampling
from voice.session.reply_events import ReplyEvents
from voice.session.speech import SpeechEncoder
from voice.session.transcripts import TranscriptEvents
from voice.timing import TurnTiming
from voice.turn.hysteresis import RATE_HZ
from voice.turn.machine import Action, LikelyEnd, SpeechStarted, TurnEnded

log = logging.getLogger(__name__)

STARVED_S = 1.0
"""The user was speaking and no audio came for this long (muted, line lost): the turn ends."""

SESSION_TTL_S = 3600
"""What ``expires_at`` promises."""

T = TypeVar("T")

Receive = Callable[[], Awaitable[str | bytes | None]]


@dataclass(slots=True)
class _Turn:
    """A committed user turn whose answer may still be on its way."""

    item_id: str
    timing: TurnTiming
    respond: bool
    seconds: float
    transcript: TranscriptEvents | None  # None: the client wants no transcripts


class Session:
    """One conversation. Owns its tasks: when :meth:`run` returns or is cancelled, none is left."""

    def __init__(
        self,
        engines: Engines,
        config: Config,
        outbox: Outbox,
        *,
        model: str | None = None,
        extensions: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """``model``: the name the client asked for, echoed; ``extensions``: events beyond the protocol that it wants.

        ``clock``: seconds, monotonic.
        """
        self._engines = engines
        self._service = config
        self._outbox = outbox
        self._clock = clock
        self._config = session.SessionConfig(
            id=new_id("sess"),
            model=model or engines.llm.name,
            instructions=config.system_prompt,
            expires_at=int(wall_clock()) + SESSION_TTL_S,
            audio=session.AudioConfig(
                output=session.OutputConfig(voice=engines.tts.voice),
                input=session.InputConfig(transcription=session.TranscriptionConfig(model=config.engines.asr)),
            ),
        )
        if wanted := [name for name in extensions if name in session.EXTENSIONS]:
            self._config = session.apply_update(self._config, {"extensions": wanted})
        self._conversation_id = new_id("conv")
        self._conversation = Conversation()
        self._ingress = Ingress(
            engines.vad.stream(),
            self._config.audio.input.format,
            turn_policy(self._config.audio.input.turn_detection, self._service.server.max_turn_s),
        )
        self._listening = Listening(
            self._ingress,
            queue=engines.recognition,
            spawn=lambda work: self._start(work, self._hearing),
            score=engines.llm.score,
            observer=Observer(words=self._words_known),
        )
        self._expect()
        self._speech_item_id: str | None = None
        self._turn: _Turn | None = None  # its reply has not begun
        self._transcript: TranscriptEvents | None = None  # of the turn that is open
        self._hearing: set[asyncio.Task[Any]] = set()
        self._transcribing: set[asyncio.Task[None]] = set()
        self._replies: dict[str, tuple[Reply, asyncio.Task[None]]] = {}
        self._default_reply: Reply | None = None
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self, receive: Receive) -> None:
        """Serves the client until ``receive()`` gives None; then cancels all work at once."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            self._send(session.SessionCreated(session=self._config))
            try:
                while (message := await self._next(receive)) is not None:
                    await self._handle(message)
            finally:
                for task in [*self._hearing, *self._transcribing, *(task for _, task in self._replies.values())]:
                    task.cancel()

    async def _next(self, receive: Receive) -> str | bytes | None:
        """The next message. While the user speaks, silence on the line ends the turn too."""
        while self._ingress.machine.user_speaking:
            try:
                async with asyncio.timeout(STARVED_S):
                    return await receive()
            except TimeoutError:
                self._act(self._ingress.machine.starve())
        return await receive()

    async def _handle(self, message: str | bytes) -> None:
        event_id: str | None = None
        try:
            if isinstance(message, bytes):
                raise ProtocolError("send events as JSON in text frames", code="invalid_value")
            event = wire.decode(message)
            event_id = event.event_id
            match event:
                case input_audio.Append():
                    await self._append(event)
                case session.SessionUpdate():
                    self._update(event)
                case input_audio.Commit():
                    self._client_commit()
                case input_audio.Clear():
                    self._listening.clear()
                    self._speech_item_id = self._transcript = None
                    self._send(input_audio.Cleared())
                case items.ItemCreate():
                    item, before = self._conversation.create(event.item, event.previous_item_id)
                    self._send(items.ItemAdded(item=item, previous_item_id=before))
                    self._send(items.ItemDone(item=item, previous_item_id=before))
                case items.ItemRetrieve():
                    item = self._conversation.get(event.item_id, code="item_retrieve_invalid_item_id")
                    self._send(items.ItemRetrieved(item=item))
                case items.ItemDelete():
                    self._conversation.delete(event.item_id)
                    self._send(items.ItemDeleted(item_id=event.item_id))
                case items.ItemTruncate():
                    cut_ms = self._conversation.truncate(event.item_id, event.audio_end_ms)
                    self._send(items.ItemTruncated(item_id=event.item_id, audio_end_ms=cut_ms))
                case response.ResponseCreate():
                    self._create_response(event.response or response.ResponseParams())
                case response.ResponseCancel():
                    self._cancel_response(event.response_id)
                case response.OutputAudioBufferClear():
                    pass  # means something over WebRTC only
        except ProtocolError as error:
            metrics.ERRORS.labels(error.code).inc()
            self._send(errors.ErrorEvent.of(error, event_id))

    def _update(self, event: session.SessionUpdate) -> None:
        old = self._config
        self._config = session.apply_update(old, event.session)
        audio_input = self._config.audio.input
        self._expect()
        if audio_input.format != old.audio.input.format:
            self._ingress.set_format(audio_input.format)
        if audio_input.turn_detection != old.audio.input.turn_detection:
            self._ingress.machine.configure(
                turn_policy(self._config.audio.input.turn_detection, self._service.server.max_turn_s)
            )
        self._send(session.SessionUpdated(session=self._config))

    async def _append(self, event: input_audio.Append) -> None:
        before = self._ingress.position
        self._act(await self._ingress.feed(event.decode(), self._clock()))
        self._listening.look()
        metrics.AUDIO_IN_SECONDS.inc((self._ingress.position - before) / RATE_HZ)

    def _act(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case SpeechStarted():
                    self._speech_started(action)
                case LikelyEnd():
                    self._listening.likely_end(action)
                case TurnEnded():
                    item_id = self._speech_item_id
                    if item_id is not None:
                        self._send(input_audio.SpeechStopped(audio_end_ms=_ms(action.end), item_id=item_id))
                    detection = self._config.audio.input.turn_detection
                    self._commit(action, respond=detection is not None and detection.create_response)

    def _speech_started(self, action: SpeechStarted) -> None:
        self._speech_item_id = new_id("item")
        self._send(input_audio.SpeechStarted(audio_start_ms=_ms(action.start), item_id=self._speech_item_id))
        self._transcript = self._transcript_events(self._speech_item_id)
        detection = self._config.audio.input.turn_detection
        if detection is not None and detection.interrupt_response:
            # An answer that has not begun yet is dropped too: the user goes on, and one answer to all of it follows.
            self._turn = None
            self._cancel_reply(self._default_reply, "turn_detected")

    def _client_commit(self) -> None:
        ended = self._listening.commit()
        if ended is None:
            raise ProtocolError(
                "the input audio buffer is empty: append audio before committing",
                code="input_audio_buffer_commit_empty",
            )
        self._commit(ended, respond=False)

    def _commit(self, ended: TurnEnded, *, respond: bool) -> None:
        """The user's turn becomes an item; its words follow."""
        item_id = self._speech_item_id or new_id("item")
        self._speech_item_id = None
        item = user_audio_item(item_id)
        previous = self._conversation.append(item)
        self._send(input_audio.Committed(item_id=item_id, previous_item_id=previous))
        self._send(items.ItemAdded(item=item, previous_item_id=previous))
        self._send(items.ItemDone(item=item, previous_item_id=previous))
        timing = TurnTiming(endpoint=self._clock())
        if ended.last_voiced is not None:
            timing.last_voiced = self._ingress.arrival(ended.last_voiced)
        hearing = self._listening.finish(ended)
        transcript, self._transcript = self._transcript or self._transcript_events(item_id), None
        turn = _Turn(item_id, timing, respond, (ended.end - ended.start) / RATE_HZ, transcript)
        self._turn = turn
        self._start(self._transcribe(turn, hearing), self._transcribing)

    def _transcript_events(self, item_id: str) -> TranscriptEvents | None:
        if self._config.audio.input.transcription is None:
            return None
        return TranscriptEvents(item_id, self._send, snapshots=self._config.wants(session.PARTIALS))

    def _expect(self) -> None:
        """Tells the recogniser what the client knows about the audio."""
        config = self._config.audio.input.transcription
        self._listening.language.pinned = (config.language if config else None) or self._service.engines.language
        self._listening.vocabulary = config.prompt if config else None

    def _words_known(self, hearing: TurnHearing) -> None:
        if self._transcript is not None:
            self._transcript.update(hearing)

    async def _transcribe(self, turn: _Turn, hearing: asyncio.Task[Heard | Exception] | None) -> None:
        heard = await hearing if hearing is not None else Heard("")
        if isinstance(heard, Exception):
            if self._turn is turn:
                self._turn = None
            metrics.TURNS.labels("failed").inc()
            if turn.transcript is not None:
                turn.transcript.failed(heard)
            self._server_error(f"the speech recogniser failed ({one_line(heard)}): say it again", "engine_failed")
            return
        turn.timing.asr_final = self._clock()
        for item in self._conversation:
            if item.id == turn.item_id:
                self._conversation.update(with_transcript(item, heard.text))
        if turn.transcript is not None:
            turn.transcript.completed(heard, turn.seconds)
        metrics.TURNS.labels("transcribed" if heard.text else "discarded").inc()
        if turn is self._turn and turn.respond and self._default_reply is None:
            self._turn = None
            if heard.text:
                self._reply(response.ResponseParams(), turn.timing)

    def _create_response(self, params: response.ResponseParams) -> None:
        if params.conversation not in (None, "auto", "none"):
            raise ProtocolError('conversation must be "auto" or "none"', code="invalid_value", param="conversation")
        answer_coming = self._turn is not None and self._turn.respond
        if params.conversation != "none" and (self._default_reply is not None or answer_coming):
            raise ProtocolError(
                "a response is active: wait for response.done or cancel it",
                code="conversation_already_has_active_response",
            )
        # Push-to-talk: the clock of this turn began with the commit, and its words may still be on their way.
        timing = self._turn.timing if self._turn is not None else TurnTiming(endpoint=self._clock())
        if params.conversation != "none":
            self._turn = None
        self._reply(params, timing)

    def _reply(self, params: response.ResponseParams, timing: TurnTiming) -> None:
        config = self._config
        instructions = config.instructions if params.instructions is None else params.instructions
        own_input = None if params.input is None else to_messages(instructions, self._resolve(params.input))
        in_history = params.conversation != "none"
        modality = (params.output_modalities or config.output_modalities)[0]
        limit = params.max_output_tokens or config.max_output_tokens
        output = config.audio.output
        events = ReplyEvents(
            self._send,
            modality=modality,
            conversation_id=self._conversation_id if in_history else None,
            max_output_tokens=limit,
            audio={"output": {"format": msgspec.to_builtins(output.format), "voice": output.voice}},
            metadata=params.metadata,
        )
        reply = Reply(
            events=events,
            engines=self._engines,
            outbox=self._outbox,
            conversation=self._conversation if in_history else None,
            encoder=SpeechEncoder(self._engines.tts, output.format, output.speed) if modality == "audio" else None,
            sampling=limit_sampling(self._service.sampling, limit),
            client_limit=isinstance(limit, int),
            timing=timing,
            clock=self._clock,
        )
        if in_history:
            self._default_reply = reply
        events.created()

        def prompt() -> list[ChatMessage]:
            return self._conversation.messages(instructions) if own_input is None else own_input

        task = self._start(self._run_reply(reply, prompt), set())
        self._replies[reply.response_id] = (reply, task)

    def _resolve(self, new_items: Sequence[items.NewItem]) -> list[items.Item]:
        """The items that a response is to be made from in place of the conversation."""
        resolved = []
        for new in new_items:
            if new.type == "item_reference" and new.id is not None:
                resolved.append(self._conversation.get(new.id))
            else:
                resolved.append(items.item_from_client(new, new.id or new_id("item")))
        return resolved

    async def _run_reply(self, reply: Reply, prompt: Prompt) -> None:
        try:
            while self._transcribing:
                await asyncio.wait(set(self._transcribing))
            await reply.run(prompt)
        except Exception as error:
            log.exception("reply failed")
            self._server_error(f"the reply failed: {one_line(error)}", "engine_failed")
        finally:
            self._replies.pop(reply.response_id, None)
            if self._default_reply is reply:
                self._default_reply = None

    def _cancel_response(self, response_id: str | None) -> None:
        if response_id is None and self._default_reply is None and self._turn is not None and self._turn.respond:
            # The answer is on its way but has no response yet: give it one, so that it can be seen to end.
            turn, self._turn = self._turn, None
            self._reply(response.ResponseParams(), turn.timing)
        entry = self._replies.get(response_id) if response_id is not None else None
        reply = entry[0] if entry is not None else self._default_reply if response_id is None else None
        if reply is None or reply.events.closed:
            raise ProtocolError("Cancellation failed: no active response found", code="response_cancel_not_active")
        self._cancel_reply(reply, "client_cancelled")

    def _cancel_reply(self, reply: Reply | None, reason: response.CancelReason) -> None:
        if reply is None:
            return
        reply.cancel(reason)
        entry = self._replies.pop(reply.response_id, None)
        if entry is not None:
            entry[1].cancel()
        if self._default_reply is reply:
            self._default_reply = None

    def _start(self, work: Coroutine[Any, Any, T], group: set[asyncio.Task[T]]) -> asyncio.Task[T]:
        assert self._tasks is not None  # set by run()
        task = self._tasks.create_task(work)
        group.add(task)
        task.add_done_callback(group.discard)
        return task

    def _send(self, event: ServerEventBase, recallable_as: str | None = None) -> None:
        self._outbox.put(event, recallable_as=recallable_as)

    def _server_error(self, message: str, code: str) -> None:
        metrics.ERRORS.labels(code).inc()
        self._send(errors.ErrorEvent.server(message, code))


def _ms(position: int) -> int:
    return position * 1000 // RATE_HZ
