"""Clients of the service: a small library to embed, and what `voice ask`, `talk` and `bench turn` are made of.

client = await RealtimeClient.connect("ws://127.0.0.1:8765")
async with client:
    await client.configure(audio_session())
    await client.send_audio(samples)            # PCM16 or float32, 24 kHz mono, as often as you like
    async for event in client:                  # dicts, as the server sent them
        ...
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from voice.client.address import realtime_url
    from voice.client.conversation import Conversation, Question
    from voice.client.realtime import RealtimeClient, audio_session
    from voice.client.recorder import TurnReport
    from voice.timing import STAGES

__all__ = ["STAGES", "Conversation", "Question", "RealtimeClient", "TurnReport", "audio_session", "realtime_url"]

_HOMES = {
    "STAGES": "recorder",
    "Conversation": "conversation",
    "Question": "conversation",
    "RealtimeClient": "realtime",
    "TurnReport": "recorder",
    "audio_session": "realtime",
    "realtime_url": "address",
}


def __getattr__(name: str) -> Any:
    """Imports on first use: `voice --help` reads only the options of the commands, and should not wait for numpy."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"voice.client.{_HOMES[name]}"), name)
