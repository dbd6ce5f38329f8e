"""Where the time of a turn went: moments on one monotonic clock, and the figures made of them.

Definitions (all in milliseconds):

- ``voice_to_voice_ms``: arrival of the last voiced user sample -> the first audible reply sample goes out;
- ``commit_to_audio_ms``: the endpoint decision (or the client's ``response.create``) -> the same;
- ``asr_final_ms``: endpoint decision -> final transcript;
- ``llm_first_token_ms``: request to the LLM -> its first text;
- ``llm_first_clause_ms``: request to the LLM -> the first clause is complete;
- ``tts_first_audio_ms``: the first clause goes to the synthesizer -> its first audio is back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

METADATA_KEY = "voice.latency"
"""Key of the timing summary in ``response.metadata``."""

STAGES = ("asr_final_ms", "llm_first_token_ms", "llm_first_clause_ms", "tts_first_audio_ms")
CLOCKS = ("voice_to_voice_ms", "commit_to_audio_ms")


@dataclass(slots=True)
class TurnTiming:
    """The moments of one turn, in seconds of one monotonic clock; None while a moment has not come."""

    last_voiced: float | None = None
    endpoint: float | None = None
    asr_final: float | None = None
    llm_request: float | None = None
    llm_first_token: float | None = None
    llm_first_clause: float | None = None
    tts_request: float | None = None
    tts_first_audio: float | None = None
    first_audible: float | None = None

    def figures(self) -> dict[str, float]:
        """Both clocks and every stage that took place, milliseconds with one decimal."""
        spans = {
            "voice_to_voice_ms": (self.last_voiced, self.first_audible),
            "commit_to_audio_ms": (self.endpoint, self.first_audible),
            "asr_final_ms": (self.endpoint, self.asr_final),
            "llm_first_token_ms": (self.llm_request, self.llm_first_token),
            "llm_first_clause_ms": (self.llm_request, self.llm_first_clause),
            "tts_first_audio_ms": (self.tts_request, self.tts_first_audio),
        }
        return {
            name: round((end - start) * 1000, 1)
            for name, (start, end) in spans.items()
            if start is not None and end is not None
        }

    def metadata(self) -> str:
        """The figures as compact JSON, for clients that only surface ``response.metadata``."""
        return json.dumps(self.figures(), separators=(",", ":"))
