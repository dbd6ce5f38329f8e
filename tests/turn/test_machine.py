"""The turn machine: windows in, actions out."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import voice.turn
from voice.turn.hysteresis import RATE_HZ, WINDOW_SAMPLES
from voice.turn.machine import Action, LikelyEnd, SpeechStarted, TurnEnded, TurnMachine, TurnPolicy

WINDOW_MS = WINDOW_SAMPLES * 1000 // RATE_HZ  # 32


def play(machine: TurnMachine, probabilities: Sequence[float], *, first: int = 0) -> list[Action]:
    actions: list[Action] = []
    for index, probability in enumerate(probabilities):
        actions += machine.window(probability, first + (index + 1) * WINDOW_SAMPLES)
    return [action for action in actions if not isinstance(action, LikelyEnd)]


def test_each_pause_is_reported_once_and_early() -> None:
    machine = TurnMachine(TurnPolicy())
    early = []
    for index, probability in enumerate([0.9] * 10 + [0.0] * 8 + [0.9] * 5 + [0.0] * 15):
        actions = machine.window(probability, (index + 1) * WINDOW_SAMPLES)
        early += [action for action in actions if isinstance(action, LikelyEnd)]
    assert early == [
        LikelyEnd(start=0, end=13 * WINDOW_SAMPLES, last_voiced=10 * WINDOW_SAMPLES),
        LikelyEnd(start=0, end=26 * WINDOW_SAMPLES, last_voiced=23 * WINDOW_SAMPLES),
    ]


def test_a_turn_begins_with_its_prefix_and_ends_after_the_silence() -> None:
    actions = play(TurnMachine(TurnPolicy()), [0.05] * 30 + [0.9] * 20 + [0.0] * 20)
    start = 30 * WINDOW_SAMPLES - 300 * RATE_HZ // 1000
    voiced_end = 50 * WINDOW_SAMPLES
    silent_windows = -(-500 // WINDOW_MS)
    assert actions == [
        SpeechStarted(start),
        TurnEnded(start=start, end=voiced_end + silent_windows * WINDOW_SAMPLES, last_voiced=voiced_end),
    ]


def test_soft_onset_keeps_at_least_300_ms_before_the_trigger() -> None:
    actions = play(TurnMachine(TurnPolicy()), [0.05] * 30 + [0.2, 0.3, 0.4] + [0.9] * 20)
    trigger = 33 * WINDOW_SAMPLES
    assert isinstance(actions[0], SpeechStarted)
    assert trigger - actions[0].start >= 300 * RATE_HZ // 1000


def test_speech_at_the_first_sample_starts_there() -> None:
    assert play(TurnMachine(TurnPolicy()), [0.9] * 10)[0] == SpeechStarted(0)


def test_no_sample_is_in_two_turns() -> None:
    policy = TurnPolicy(silence_ms=64)
    actions = play(TurnMachine(policy), ([0.9] * 10 + [0.0] * 3) * 2)
    first, second = [action for action in actions if isinstance(action, TurnEnded)]
    assert second.start == first.end


def test_a_word_of_180_ms_is_a_turn_and_a_click_is_not() -> None:
    word = play(TurnMachine(TurnPolicy()), [0.0] * 31 + [0.9] * 6 + [0.0] * 30)
    assert [type(action) for action in word] == [SpeechStarted, TurnEnded]
    assert play(TurnMachine(TurnPolicy()), [0.0] * 31 + [0.9] + [0.0] * 30) == []


def test_the_probability_may_sag_within_speech() -> None:
    actions = play(TurnMachine(TurnPolicy()), [0.9] * 10 + [0.4] * 40 + [0.0] * 20)
    ended = actions[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.last_voiced == 50 * WINDOW_SAMPLES


def test_steady_noise_ends_at_the_longest_turn() -> None:
    actions = play(TurnMachine(TurnPolicy(max_turn_ms=3200)), [0.6] * 150)
    assert isinstance(actions[1], TurnEnded)
    assert actions[1].end == 100 * WINDOW_SAMPLES


def test_push_to_talk_decides_nothing_but_knows_what_was_voiced() -> None:
    machine = TurnMachine(None)
    assert play(machine, [0.0] * 5 + [0.9] * 10 + [0.0] * 40) == []
    assert machine.commit(55 * WINDOW_SAMPLES + 7) == TurnEnded(
        start=0, end=55 * WINDOW_SAMPLES + 7, last_voiced=15 * WINDOW_SAMPLES, by_client=True
    )
    assert machine.commit(55 * WINDOW_SAMPLES + 7) is None


def test_a_committed_silence_has_no_voiced_sample() -> None:
    machine = TurnMachine(None)
    play(machine, [0.0] * 20)
    ended = machine.commit(20 * WINDOW_SAMPLES)
    assert ended is not None and ended.last_voiced is None


def test_push_to_talk_without_commit_ends_at_the_limit() -> None:
    actions = play(TurnMachine(None), [0.0] * (60_000 // WINDOW_MS + 1))
    assert [type(action) for action in actions] == [TurnEnded]


def test_clear_forgets() -> None:
    machine = TurnMachine(TurnPolicy())
    play(machine, [0.9] * 10)
    machine.clear(10 * WINDOW_SAMPLES)
    assert not machine.user_speaking
    actions = play(machine, [0.9] * 10, first=10 * WINDOW_SAMPLES)
    assert actions == [SpeechStarted(10 * WINDOW_SAMPLES)]


def test_a_client_commit_ends_the_open_utterance() -> None:
    machine = TurnMachine(TurnPolicy())
    play(machine, [0.0] * 30 + [0.9] * 10)
    ended = machine.commit(40 * WINDOW_SAMPLES)
    assert ended is not None
    assert (ended.start, ended.end) == (30 * WINDOW_SAMPLES - 4800, 40 * WINDOW_SAMPLES)
    assert not machine.user_speaking


def test_starving_ends_an_open_utterance_only() -> None:
    machine = TurnMachine(TurnPolicy())
    assert machine.starve() == []
    play(machine, [0.9] * 10)
    (ended,) = machine.starve()
    assert isinstance(ended, TurnEnded) and ended.end == 10 * WINDOW_SAMPLES


def test_what_may_still_be_needed_is_kept() -> None:
    machine = TurnMachine(TurnPolicy())
    for index in range(200):
        end = (index + 1) * WINDOW_SAMPLES
        kept = machine.keep_from
        for action in machine.window(0.9 if index > 150 else 0.0, end):
            assert isinstance(action, SpeechStarted)
            assert action.start >= kept


def test_the_turn_package_imports_no_asyncio_engine_or_clock() -> None:
    allowed = {"__future__", "dataclasses", "voice"}
    for file in Path(voice.turn.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                assert name.split(".")[0] in allowed, (file.name, name)
                assert not name.startswith("voice.") or name.startswith("voice.turn"), (file.name, name)
