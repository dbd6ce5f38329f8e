"""Fakes for tests of clients: a scripted service, and sound devices without PortAudio."""

from __future__ import annotations

from voice.client.testing.devices import FakeSoundDevice, Status, Stream
from voice.client.testing.scripted import LATENCY, ScriptedServer, ScriptedSession, ScriptedTurn, tone

__all__ = [
    "LATENCY",
    "FakeSoundDevice",
    "ScriptedServer",
    "ScriptedSession",
    "ScriptedTurn",
    "Status",
    "Stream",
    "tone",
]
