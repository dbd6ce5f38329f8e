"""The session's configuration: what clients may set, how an update merges into it, and what is echoed back."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from voice.protocol.base import ClientEventBase, ProtocolError, ServerEventBase
from voice.protocol.response import Modality

Probability = Annotated[float, Meta(ge=0.0, le=1.0)]
Milliseconds = Annotated[int, Meta(ge=0, le=60_000)]
PARTIALS = "partials"
"""The extension that sends snapshots of words which may still change."""

EXTENSIONS = frozenset({PARTIALS})
Eagerness = Literal["low", "medium", "high", "auto"]

PCM_RATE_HZ = 24_000
"""The one PCM rate of the protocol; clients reject others."""


class PcmFormat(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="audio/pcm"):
    """Signed 16-bit little-endian mono."""

    rate: Literal[24_000] = 24_000


class UlawFormat(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="audio/pcmu"):
    """G.711 mu-law, 8 kHz mono."""


class AlawFormat(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="audio/pcma"):
    """G.711 A-law, 8 kHz mono."""


WireFormat = PcmFormat | UlawFormat | AlawFormat


class ServerVad(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="server_vad"):
    """The turn ends after a fixed silence."""

    threshold: Probability = 0.5
    prefix_padding_ms: Milliseconds = 300
    silence_duration_ms: Milliseconds = 500
    idle_timeout_ms: Milliseconds | None = None
    create_response: bool = True
    interrupt_response: bool = True


class SemanticVad(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="semantic_vad"):
    """The turn ends when the user seems done; ``eagerness`` says how soon."""

    eagerness: Eagerness = "auto"
    create_response: bool = True
    interrupt_response: bool = True


TurnDetection = ServerVad | SemanticVad


class TranscriptionConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the user's audio is transcribed. Only these three keys may be echoed."""

    model: str | None = None
    language: str | None = None
    prompt: str | None = None


class InputConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The user's side."""

    format: WireFormat = PcmFormat()
    transcription: TranscriptionConfig | None = None
    noise_reduction: dict[str, Any] | None = None
    turn_detection: TurnDetection | None = ServerVad()


class OutputConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The assistant's side. ``voice`` is always echoed as a plain string."""

    voice: str
    format: WireFormat = PcmFormat()
    speed: Annotated[float, Meta(ge=0.25, le=1.5)] = 1.0


class AudioConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides."""

    output: OutputConfig
    input: InputConfig = InputConfig()


class SessionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The whole effective configuration, as echoed in ``session.created`` and ``session.updated``."""

    id: str
    model: str
    instructions: str
    audio: AudioConfig
    expires_at: int
    type: Literal["realtime", "transcription"] = "realtime"
    object: Literal["realtime.session"] = "realtime.session"
    output_modalities: tuple[Modality, ...] = ("audio",)
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str = "auto"
    max_output_tokens: Annotated[int, Meta(ge=1, le=4096)] | Literal["inf"] = "inf"
    extensions: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """Events beyond the protocol that the client asked for; absent for clients that did not."""

    def wants(self, extension: str) -> bool:
        """Whether the client asked for an extension."""
        return self.extensions is not msgspec.UNSET and extension in self.extensions


class SessionUpdate(ClientEventBase, frozen=True, kw_only=True, tag="session.update"):
    """Changes the configuration: absent fields stay as they are."""

    session: dict[str, Any]


class SessionCreated(ServerEventBase, frozen=True, kw_only=True, tag="session.created"):
    """The first event of a connection."""

    session: SessionConfig


class SessionUpdated(ServerEventBase, frozen=True, kw_only=True, tag="session.updated"):
    """The whole configuration after an update."""

    session: SessionConfig


_CLEARED_BY_NULL = {"turn_detection", "transcription", "noise_reduction", "idle_timeout_ms"}
_FIXED = {"id", "object", "model", "expires_at"}
"""Ours to say; a client that sends them (some echo the whole session back) changes nothing."""


def apply_update(config: SessionConfig, update: dict[str, Any]) -> SessionConfig:
    """The configuration after ``session.update``.

    Objects merge; ``null`` clears turn_detection, transcription and noise_reduction and means "unchanged" elsewhere.
    A new ``turn_detection.type`` starts from that type's defaults. Unknown fields are ignored; models and voices that
    this server does not have stay mapped to its own, since clients always send OpenAI's names.

    Raises:
        ProtocolError: code ``invalid_value``, naming the field, when a value is out of range or of the wrong type.
    """
    update = {key: value for key, value in update.items() if key not in _FIXED}
    audio = update.get("audio")
    if isinstance(audio, dict) and isinstance(audio.get("output"), dict):
        output = {key: value for key, value in audio["output"].items() if key != "voice"}
        update["audio"] = {**audio, "output": output}
    if isinstance(update.get("extensions"), list):
        update["extensions"] = [name for name in update["extensions"] if name in EXTENSIONS]
    if isinstance(update.get("tool_choice"), dict):
        # Strict clients accept only a string in the echo; a forced function is closest to "required".
        update["tool_choice"] = "required"
    merged = _merge(msgspec.to_builtins(config), update)
    try:
        changed = msgspec.convert(merged, SessionConfig)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        param = "session" + path.rstrip("`")
        if param.endswith(".format.rate"):
            message = f"the only PCM rate is {PCM_RATE_HZ}; use audio/pcmu or audio/pcma for 8 kHz"
        raise ProtocolError(f"{message} ({param})", code="invalid_value", param=param) from None
    if len(changed.output_modalities) != 1:
        raise ProtocolError(
            'output_modalities must be ["audio"] or ["text"]', code="invalid_value", param="session.output_modalities"
        )
    return changed


def _merge(base: dict[str, Any], update: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in update.items():
        if value is None and key not in _CLEARED_BY_NULL:
            continue
        current = merged.get(key)
        if isinstance(value, dict) and isinstance(current, dict) and not _new_type(current, value):
            merged[key] = _merge(current, value)
        else:
            merged[key] = value
    return merged


def _new_type(current: dict[str, Any], value: dict[str, Any]) -> bool:
    """Whether a tagged object (turn_detection, format) changes its kind, and so starts from that kind's defaults."""
    return "type" in value and value["type"] != current.get("type")
