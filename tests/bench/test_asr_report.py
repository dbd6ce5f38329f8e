from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice.bench.asr_report import (
    Baseline,
    Measured,
    WordTiming,
    as_table,
    plot_steps,
    plot_words,
    stable_errors,
    summarize,
)
from voice.bench.words import WordErrors, word_errors
from voice.errors import ServiceError

FIRST = Measured(
    name="a.wav",
    seconds=2.5,
    transcript="What is the capital of France?",
    final="What is the capitol of France?",
    stable="What is the",
    retractions=0,
    revisions=2,
    first_partial_ms=300.0,
    first_partial_needed_ms=250.0,
    step_ms=(10.0, 20.0, 30.0),
    step_at_s=(0.5, 1.0, 1.5),
    settle_ms=(50.0,),
    settle_at_s=(1.2,),
    final_pass_ms=(80.0, 90.0),
    guesses=2,
    guesses_wasted=1,
    final_ms=100.0,
    words=(WordTiming(0.5, 200.0, 700.0, 150.0), WordTiming(0.8, 100.0, None, 50.0)),
    language="en",
)
SECOND = Measured(
    name="b.wav",
    seconds=1.5,
    transcript="And the river?",
    final="And the river.",
    stable="And a",
    retractions=1,
    revisions=0,
    first_partial_ms=None,
    first_partial_needed_ms=None,
    step_ms=(40.0,),
    step_at_s=(0.5,),
    settle_ms=(),
    settle_at_s=(),
    final_pass_ms=(),
    guesses=0,
    guesses_wasted=0,
    final_ms=200.04,
    words=(WordTiming(0.4, None, None, None),),
    language="en",
)
UNKNOWN = Measured(
    "c.wav", 1.0, None, "", "", 0, 0, None, None, (), (), (), (), (), 0, 0, final_ms=300.0, words=(), language=None
)
NOTHING = {"p50": None, "p95": None}


def summary(*measured: Measured, baselines: list[Baseline] | None = None) -> dict[str, Any]:
    return summarize(measured, baselines, machine="a test machine", mode="streaming")


def test_summary() -> None:
    baselines = [Baseline(FIRST.transcript or "", 400.0), Baseline("And a liver", 500.0), Baseline("x", 600.0)]
    result = summary(FIRST, SECOND, UNKNOWN, baselines=baselines)
    turns = result.pop("turns")
    assert list(result)[:8] == [
        "utterances", "wer_final", "wer_stable", "retractions", "first_partial_ms", "step_ms", "final_ms", "baseline",
    ]  # fmt: skip
    assert result == {
        "utterances": 3,
        "wer_final": 11.11,  # 1 of 6 + 3 words
        "wer_stable": 20.0,  # 1 of 3 + 2
        "retractions": 1,
        "first_partial_ms": {"p50": 300.0, "p95": 300.0},
        "step_ms": {"p50": 25.0, "p95": 38.5},
        "final_ms": {"p50": 200.0, "p95": 290.0},
        "baseline": {"wer": 22.22, "final_ms": {"p50": 500.0, "p95": 590.0}},
        "machine": "a test machine",
        "mode": "streaming",
        "word_shown_ms": {"p50": 150.0, "p95": 195.0},
        "word_stable_ms": {"p50": 700.0, "p95": 700.0},
        "settle_ms": {"p50": 50.0, "p95": 50.0},
        "final_pass_ms": {"p50": 85.0, "p95": 89.5},
        "first_partial_needed_ms": {"p50": 250.0, "p95": 250.0},
        "word_needed_ms": {"p50": 100.0, "p95": 145.0},
        "guesses": 2,
        "guesses_wasted": 1,
        "revisions": 2,
        "stable_words_share": 0.4444,  # "what is the" and "and", of 9
        "seconds": 5.0,
        "transcripts_known": 2,
        "languages": {"en": 2, "unknown": 1},
        "final_speedup": 2.5,
    }
    assert turns[0] == {
        "name": "a.wav",
        "seconds": 2.5,
        "language": "en",
        "transcript": "What is the capital of France?",
        "final": "What is the capitol of France?",
        "stable": "What is the",
        "word_errors": 1,
        "words": 6,
        "first_partial_ms": 300.0,
        "step_ms": {"p50": 20.0, "p95": 29.0},
        "final_ms": 100.0,
        "retractions": 0,
        "revisions": 2,
        "guesses": 2,
        "guesses_wasted": 1,
        "baseline": "What is the capital of France?",
        "baseline_word_errors": 0,
        "baseline_final_ms": 400.0,
    }
    assert turns[2]["word_errors"] is turns[2]["words"] is turns[2]["baseline_word_errors"] is None
    json.dumps([result, turns])


def test_summary_of_nothing_known() -> None:
    result = summary(UNKNOWN)
    assert result["wer_final"] is result["wer_stable"] is result["baseline"] is result["final_speedup"] is None
    assert result["stable_words_share"] is None
    for name in ("first_partial_ms", "step_ms", "settle_ms", "final_pass_ms", "word_shown_ms", "word_stable_ms"):
        assert result[name] == NOTHING
    assert "baseline" not in result["turns"][0]


def test_no_stable_text_is_no_stable_word_error_rate() -> None:
    result = summary(Measured(**{**as_fields(FIRST), "stable": ""}))
    assert result["wer_stable"] is None and result["wer_final"] == 16.67


def test_immediate_final_has_no_speedup() -> None:
    at_once = Measured(**{**as_fields(FIRST), "final_ms": 0.0})
    assert summary(at_once, baselines=[Baseline("", 100.0)])["final_speedup"] is None


def as_fields(measured: Measured) -> dict[str, Any]:
    return {name: getattr(measured, name) for name in Measured.__slots__}


def test_summary_refuses() -> None:
    with pytest.raises(ServiceError, match="no recording was measured"):
        summary()
    with pytest.raises(ValueError, match="zip"):
        summary(FIRST, baselines=[])


def test_table() -> None:
    baselines = [Baseline("What is the capital of France?", 400.0), Baseline("And a liver", 500.0)]
    assert as_table(summary(FIRST, SECOND, baselines=baselines)).splitlines() == [
        "",
        "a test machine, streaming",
        "2 utterances (2 transcribed), 4 s",
        "word error rate: final 11.11 %, stable 20.00 %, baseline 22.22 %",
        "1 retractions, 2 revisions, 1 of 2 guesses wasted",
        "44.4% of the final's words were stable before it came",
        "the final came 3.00 times as fast as the baseline's",
        "",
        "                                p50     p95",
        "first partial                300 ms  300 ms",
        "  audio needed               250 ms  250 ms",
        "word shown                   150 ms  195 ms",
        "  audio needed behind it     100 ms  145 ms",
        "word stable                  700 ms  700 ms",
        "partial step, compute         25 ms   38 ms",
        "settling step, compute        50 ms   50 ms",
        "final, compute                85 ms   90 ms",
        "final after the endpoint     150 ms  195 ms",
        "baseline after the endpoint  450 ms  495 ms",
    ]
    bare = as_table(summary(UNKNOWN))
    assert "word error rate: final -, stable -\n" in bare and "baseline" not in bare and "times" not in bare


@pytest.mark.parametrize(
    ("stable", "expected"),
    [
        ("", WordErrors(0, 0)),
        ("What is the", WordErrors(0, 3)),
        ("What is the capital of France", WordErrors(0, 6)),
        ("What is a", WordErrors(1, 3)),
        ("What the capital", WordErrors(1, 4)),
        ("What is is the", WordErrors(1, 3)),
        ("What is the capital of France now", WordErrors(1, 6)),
    ],
)
def test_stable_errors(stable: str, expected: WordErrors) -> None:
    assert stable_errors("What is the capital of France?", stable) == expected


WORDS = st.lists(st.sampled_from("abc"), max_size=7)


@given(WORDS, WORDS)
def test_stable_errors_are_those_of_the_best_beginning(reference: list[str], stable: list[str]) -> None:
    heard = " ".join(stable)
    beginnings = [word_errors(" ".join(reference[:end]), heard) for end in range(len(reference) + 1)]
    best = min(beginnings, key=lambda error: (error.errors, -error.words))
    assert stable_errors(" ".join(reference), heard) == best


PLOTS = [plot_words, plot_steps]
Plot = Callable[[list[Measured], str], None]


@pytest.mark.parametrize("plot", PLOTS)
@pytest.mark.parametrize("measured", [[FIRST, SECOND], [UNKNOWN], []])
def test_plots(plot: Plot, measured: list[Measured], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "plot"  # PNG whatever the name says
    plot(measured, str(path))
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize("plot", PLOTS)
def test_plot_in_no_folder(plot: Plot, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(ServiceError, match=r"plot.png cannot be written: No such file or directory; choose another"):
        plot([FIRST], str(tmp_path / "none" / "plot.png"))


@pytest.mark.parametrize("plot", PLOTS)
def test_plots_need_matplotlib(plot: Plot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ServiceError, match=r'plots need matplotlib: pip install "voice\[bench\]"'):
        plot([FIRST], str(tmp_path / "plot.png"))
