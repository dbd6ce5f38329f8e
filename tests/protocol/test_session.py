"""How session.update merges, and what is echoed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from voice.protocol.base import ProtocolError
from voice.protocol.session import (
    AudioConfig,
    InputConfig,
    OutputConfig,
    SemanticVad,
    ServerVad,
    SessionConfig,
    TranscriptionConfig,
    UlawFormat,
    apply_update,
)

BASE = SessionConfig(
    id="sess_1",
    model="local",
    instructions="Be brief.",
    expires_at=1,
    audio=AudioConfig(
        output=OutputConfig(voice="joe"), input=InputConfig(transcription=TranscriptionConfig(model="whisper"))
    ),
)


def update(**session: Any) -> SessionConfig:
    return apply_update(BASE, session)


def test_absent_fields_stay() -> None:
    assert update(type="realtime") == BASE


def test_objects_merge_deeply() -> None:
    changed = update(audio={"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 300}}})
    assert changed.audio.input.turn_detection == ServerVad(silence_duration_ms=300)
    assert changed.audio.output == BASE.audio.output


def test_a_new_turn_detection_type_starts_from_its_defaults() -> None:
    first = update(audio={"input": {"turn_detection": {"type": "server_vad", "create_response": False}}})
    second = apply_update(first, {"audio": {"input": {"turn_detection": {"type": "semantic_vad", "eagerness": "low"}}}})
    assert second.audio.input.turn_detection == SemanticVad(eagerness="low", create_response=True)


@pytest.mark.parametrize("field", ["turn_detection", "transcription", "noise_reduction"])
def test_null_clears_the_clearable(field: str) -> None:
    assert getattr(update(audio={"input": {field: None}}).audio.input, field) is None


def test_null_elsewhere_changes_nothing() -> None:
    assert update(instructions=None, tools=None, tracing=None, audio={"output": {"speed": None}}) == BASE


def test_empty_string_clears_instructions_and_empty_list_clears_tools() -> None:
    assert update(instructions="").instructions == ""
    with_tool = update(tools=[{"type": "function", "name": "f"}])
    assert apply_update(with_tool, {"tools": []}).tools == ()


@pytest.mark.parametrize("voice", ["marin", {"id": "voice_1"}])
def test_voices_that_we_do_not_have_map_to_ours_and_are_echoed_as_a_string(voice: object) -> None:
    assert update(audio={"output": {"voice": voice}}).audio.output.voice == "joe"


def test_what_is_ours_cannot_be_changed() -> None:
    assert update(id="x", model="gpt", object="y", expires_at=9) == BASE


def test_forced_function_is_echoed_as_a_string() -> None:
    assert update(tool_choice={"type": "function", "name": "f"}).tool_choice == "required"


def test_g711_has_no_rate() -> None:
    changed = update(audio={"input": {"format": {"type": "audio/pcmu"}}})
    assert changed.audio.input.format == UlawFormat()
    assert msgspec.to_builtins(changed.audio.input.format) == {"type": "audio/pcmu"}


@pytest.mark.parametrize(
    ("session", "param"),
    [
        ({"audio": {"input": {"turn_detection": {"threshold": 3}}}}, "session.audio.input.turn_detection.threshold"),
        ({"audio": {"input": {"turn_detection": {"type": "none"}}}}, "session.audio.input.turn_detection"),
        ({"audio": {"input": {"format": {"type": "audio/pcm", "rate": 12345}}}}, "session.audio.input.format.rate"),
        ({"audio": {"input": {"format": {"type": "audio/pcm", "rate": -1}}}}, "session.audio.input.format.rate"),
        ({"audio": {"output": {"speed": 9}}}, "session.audio.output.speed"),
        ({"output_modalities": ["audio", "text"]}, "session.output_modalities"),
        ({"output_modalities": []}, "session.output_modalities"),
        ({"max_output_tokens": 0}, "session.max_output_tokens"),
        ({"instructions": 5}, "session.instructions"),
    ],
)
def test_bad_values_are_refused_by_name(session: dict[str, Any], param: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        apply_update(BASE, session)
    assert raised.value.code == "invalid_value"
    assert raised.value.param is not None
    assert raised.value.param.startswith(param)


def test_a_wrong_rate_names_the_right_one() -> None:
    with pytest.raises(ProtocolError, match="24000"):
        update(audio={"input": {"format": {"type": "audio/pcm", "rate": 48000}}})
