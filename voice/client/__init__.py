"""Clients of the service: a small library to embed, and what `voice ask`, `talk` and `bench turn` are made of.

client = await RealtimeClient.connect("ws://127.0.0.1:8765")
async with client:
    await client.configure(audio_session())
    await client.send_audio(samples)            # PCM16 or float32, 24 kHz mono, as often as you like
    async for event in client:                  # dicts, as the server sent them
        ...
"""

from __future__ import annotations

from voice.client.address import realtime_url
from voice.client.conversation import Conversation
from voice.client.realtime import RealtimeClient, audio_session
from voice.client.recorder import STAGES, TurnReport

__all__ = ["STAGES", "Conversation", "RealtimeClient", "TurnReport", "audio_session", "realtime_url"]
