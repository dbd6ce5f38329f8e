"""From the client's ``turn_detection`` to the turn machine's policy."""

from __future__ import annotations

from voice.protocol.session import SemanticVad, ServerVad, TurnDetection
from voice.turn.machine import TurnPolicy

SEMANTIC_SILENCE_MS = {"high": 300, "medium": 500, "auto": 500, "low": 900}
"""Silence that stands for each eagerness of semantic_vad until an endpoint model decides."""


def turn_policy(detection: TurnDetection | None, max_turn_s: float) -> TurnPolicy | None:
    """The policy that a session asks for; None for push-to-talk."""
    max_turn_ms = int(max_turn_s * 1000)
    match detection:
        case None:
            return None
        case ServerVad():
            return TurnPolicy(
                threshold=detection.threshold,
                prefix_ms=detection.prefix_padding_ms,
                silence_ms=detection.silence_duration_ms,
                max_turn_ms=max_turn_ms,
            )
        case SemanticVad():
            return TurnPolicy(silence_ms=SEMANTIC_SILENCE_MS[detection.eagerness], max_turn_ms=max_turn_ms)
