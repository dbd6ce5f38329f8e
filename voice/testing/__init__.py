"""For tests of this service and of what embeds it: scripted engines, a virtual clock, an in-memory client.

No model, no socket, no waiting: a conversation of a minute runs in milliseconds.
"""

from voice.testing.clock import VirtualClockLoop, run_virtual
from voice.testing.engines import (
    ScriptedLanguageModel,
    ScriptedRecognizer,
    ScriptedSynthesizer,
    ScriptedVad,
    scripted_engines,
)
from voice.testing.transport import MemoryClient, speech_pcm24k

__all__ = [
    "MemoryClient",
    "ScriptedLanguageModel",
    "ScriptedRecognizer",
    "ScriptedSynthesizer",
    "ScriptedVad",
    "VirtualClockLoop",
    "run_virtual",
    "scripted_engines",
    "speech_pcm24k",
]
