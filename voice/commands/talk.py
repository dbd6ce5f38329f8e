"""`voice talk`: a conversation with microphone and speaker."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from typing import TYPE_CHECKING, Any, TextIO

from voice.client import target
from voice.errors import ServiceError

if TYPE_CHECKING:
    from voice.client.devices import Microphone, Speaker
    from voice.client.realtime import RealtimeClient

_METER_FLOOR_DBFS = -60.0
_METER_WIDTH = 20
_METER_INTERVAL_S = 0.1


def add_parser(subparsers: Any) -> None:
    """Declares the command."""
    parser = subparsers.add_parser(
        "talk",
        help="talk to the service with microphone and speaker",
        description="Microphone in, speaker out, with a live transcript and a level meter. Ctrl-C leaves. Use "
        "headphones: without them the microphone hears the replies.",
    )
    parser.add_argument("--input-device", metavar="NAME", help="microphone: number or part of its name")
    parser.add_argument("--output-device", metavar="NAME", help="speaker: number or part of its name")
    parser.add_argument("--list-devices", action="store_true", help="show the audio devices and leave")
    target.add_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Looks for the devices before it starts a server, and leaves with 0 on Ctrl-C."""
    from voice.client.devices import find_device, load_sounddevice

    sd = load_sounddevice()
    if args.list_devices:
        print(str(sd.query_devices()) or "no audio devices were found")
        return 0
    target.check(args)
    find_device(sd, args.input_device, "input")
    find_device(sd, args.output_device, "output")
    try:
        with target.server(args) as url:
            asyncio.run(_talk(sd, args, url))
    except KeyboardInterrupt:
        print()
    return 0


async def _talk(sd: Any, args: argparse.Namespace, url: str) -> None:
    from voice.client.devices import Microphone, Speaker
    from voice.client.realtime import RealtimeClient, audio_session

    async with await RealtimeClient.connect(url, api_key=target.api_key(args)) as client:
        await client.configure(audio_session())
        loop = asyncio.get_running_loop()
        more = asyncio.Event()
        speaker = Speaker(sd, args.output_device)
        try:
            microphone = Microphone(sd, args.input_device, wake=lambda: wake(loop, more))
        except BaseException:
            speaker.close()
            raise
        try:
            screen = Screen(sys.stdout, width=shutil.get_terminal_size().columns - 1)
            screen.line(f"listening on {microphone.name}, speaking on {speaker.name}; Ctrl-C leaves")
            await converse(client, microphone, speaker, screen, more)
        finally:
            microphone.close()
            speaker.close()


def wake(loop: asyncio.AbstractEventLoop, more: asyncio.Event) -> None:
    """Tells the loop, from the audio thread, that there is more to send."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(more.set)


async def converse(
    client: RealtimeClient, microphone: Microphone, speaker: Speaker, screen: Screen, more: asyncio.Event
) -> None:
    """Runs until the connection ends (ServiceError) or the task is cancelled."""
    tasks = (
        asyncio.create_task(_send(client, microphone, more), name="microphone"),
        asyncio.create_task(_receive(client, speaker, screen), name="events"),
        asyncio.create_task(_meter(microphone, screen), name="meter"),
    )
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        raise ServiceError("the conversation ended: the server closed the connection")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        screen.clear()


async def _send(client: RealtimeClient, microphone: Microphone, more: asyncio.Event) -> None:
    while True:
        await more.wait()
        more.clear()
        samples = microphone.read()
        if samples.size:
            await client.send_audio(samples)


async def _receive(client: RealtimeClient, speaker: Speaker, screen: Screen) -> None:
    reply = Playback(client, speaker)
    async for event in client:
        await reply.follow(event)
        screen.show(event)


async def _meter(microphone: Microphone, screen: Screen) -> None:
    while True:
        screen.level(microphone.level_dbfs)
        await asyncio.sleep(_METER_INTERVAL_S)


class Playback:
    """Plays the replies, and falls silent when the user speaks, telling the server how much was heard."""

    def __init__(self, client: RealtimeClient, speaker: Speaker) -> None:
        self._client = client
        self._speaker = speaker
        self._response: str | None = None
        self._item: str | None = None
        self._silenced: set[str] = set()

    async def follow(self, event: dict[str, Any]) -> None:
        """Takes one server event."""
        from voice.client.realtime import audio_of

        kind = event.get("type")
        if kind == "response.output_audio.delta":
            response = str(event.get("response_id"))
            if response in self._silenced:
                return
            if response != self._response:
                self._response, self._item = response, str(event.get("item_id"))
                self._speaker.begin_reply()
            self._speaker.play(audio_of(event))
        elif kind == "response.output_audio.done" and event.get("response_id") == self._response:
            if self._response not in self._silenced:
                self._speaker.end_reply()
        elif kind == "input_audio_buffer.speech_started":
            await self._silence()

    async def _silence(self) -> None:
        if self._response is None or self._response in self._silenced:
            return
        waiting_ms = self._speaker.backlog_ms
        heard_ms = self._speaker.played_ms
        self._speaker.flush()
        self._silenced = {self._response}
        if waiting_ms > 0 and self._item is not None:
            event = {"type": "conversation.item.truncate", "item_id": self._item, "content_index": 0}
            await self._client.send({**event, "audio_end_ms": heard_ms})


class Screen:
    """Lines of conversation, and on a terminal one last line, redrawn in place: level meter and words so far."""

    def __init__(self, stream: TextIO, width: int = 100) -> None:
        self._stream = stream
        self._width = width
        self._live = stream.isatty()
        self._level_dbfs = _METER_FLOOR_DBFS
        self._words: dict[str, str] = {}
        self._now = ""

    def line(self, text: str) -> None:
        """A line that stays."""
        self.clear()
        self._stream.write(f"{text}\n")
        self._stream.flush()
        self._draw()

    def show(self, event: dict[str, Any]) -> None:
        """Shows one server event, if it has words."""
        kind = str(event.get("type"))
        if kind.endswith("input_audio_transcription.delta"):
            self._add("you", f"you {event.get('item_id')}", str(event.get("delta") or ""))
        elif kind.endswith("input_audio_transcription.completed"):
            self._words.pop(f"you {event.get('item_id')}", None)
            self._now = ""
            if event.get("transcript"):
                self.line(f"you:       {str(event['transcript']).strip()}")
        elif kind in ("response.output_audio_transcript.delta", "response.output_text.delta"):
            self._add("assistant", f"assistant {event.get('response_id')}", str(event.get("delta") or ""))
        elif kind == "response.done":
            response = event.get("response") or {}
            words = self._words.pop(f"assistant {response.get('id')}", "").strip()
            self._now = ""
            cut = " …" if response.get("status") == "cancelled" else ""
            if words:
                self.line(f"assistant: {words}{cut}")
            if response.get("status") == "failed":
                from voice.client.realtime import error_message

                self.line(f"(the service failed: {error_message(response.get('status_details') or {})})")
        elif kind == "error":
            from voice.client.realtime import error_message

            self.line(f"(the service says: {error_message(event)})")

    def level(self, dbfs: float) -> None:
        """Moves the meter."""
        self._level_dbfs = dbfs
        self._draw()

    def clear(self) -> None:
        """Takes the live line away."""
        if self._live:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _add(self, speaker: str, key: str, words: str) -> None:
        self._words[key] = self._words.get(key, "") + words
        self._now = f"{speaker}: {self._words[key].strip()}"
        self._draw()

    def _draw(self) -> None:
        if not self._live:
            return
        share = (self._level_dbfs - _METER_FLOOR_DBFS) / -_METER_FLOOR_DBFS
        bars = round(_METER_WIDTH * min(1.0, max(0.0, share)))
        room = self._width - _METER_WIDTH - 4
        words = self._now if len(self._now) <= room else f"…{self._now[1 - room :].lstrip()}"
        self._stream.write(f"\r\x1b[K[{'#' * bars:<{_METER_WIDTH}}] {words}")
        self._stream.flush()
