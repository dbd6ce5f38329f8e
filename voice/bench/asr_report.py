"""What `voice bench asr` says: the figures, a table and plots of what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voice.bench.words import WordErrors, word_errors, words_of
from voice.errors import ServiceError

_WINDOW_S = 1.0  # of the running median in the plots, seconds of the turn
_ROWS = {
    "first partial": "first_partial_ms",
    "  audio needed": "first_partial_needed_ms",
    "word shown": "word_shown_ms",
    "  audio needed behind it": "word_needed_ms",
    "word stable": "word_stable_ms",
    "partial step, compute": "step_ms",
    "settling step, compute": "settle_ms",
    "final, compute": "final_pass_ms",
    "final after the endpoint": "final_ms",
}
_Series = tuple[str, str, Sequence[tuple[float, float | None]]]  # of a plot: name, colour, points (s, ms)


@dataclass(frozen=True, slots=True)
class WordTiming:
    """When a word of the final transcript came; None where only the final brought it."""

    spoken_s: float  # end of the word in the recording
    shown_ms: float | None  # from there until it was first shown, in a partial
    stable_ms: float | None  # from there until it became stable
    needed_ms: float | None  # audio behind it that the look had that first showed it: its latency if compute were free


@dataclass(frozen=True, slots=True)
class Measured:
    """One recording, recognized as it streamed in."""

    name: str
    seconds: float
    transcript: str | None
    final: str
    stable: str  # the stable text just before the final came
    retractions: int  # stable text that was later not a prefix any more: a promise broken
    revisions: int  # shown words that later changed: unstable ones, which may
    first_partial_ms: float | None  # start of speech until the first partial with words
    first_partial_needed_ms: float | None  # the audio that it took: its latency if compute were free
    step_ms: tuple[float, ...]  # compute of each partial step
    step_at_s: tuple[float, ...]  # its position in the turn
    settle_ms: tuple[float, ...]  # compute of each deeper step, which settles words
    settle_at_s: tuple[float, ...]
    final_pass_ms: tuple[float, ...]  # compute of each final, speculative ones included
    guesses: int  # finals that were begun in a pause
    guesses_wasted: int
    final_ms: float | None  # endpoint until the final transcript; None where no speech was found
    words: tuple[WordTiming, ...]
    language: str | None


@dataclass(frozen=True, slots=True)
class Baseline:
    """The same recording, recognized in one piece after the endpoint."""

    text: str
    final_ms: float  # endpoint until the transcript


def stable_errors(transcript: str, stable: str) -> WordErrors:
    """Word errors of a stable text, against the beginning of the reference that it fits best.

    Of beginnings that fit equally well the longest counts: a wrong word is then a substitution, not an insertion.
    """
    wanted, got = words_of(transcript), words_of(stable)
    previous = list(range(len(got) + 1))
    best = WordErrors(len(got), 0)
    for row, word in enumerate(wanted, start=1):
        current = [row]
        for column, other in enumerate(got, start=1):
            current.append(min(previous[column] + 1, current[column - 1] + 1, previous[column - 1] + (word != other)))
        previous = current
        if current[-1] <= best.errors:  # the last column is the distance to the first `row` words
            best = WordErrors(current[-1], row)
    return best


def summarize(
    measured: Sequence[Measured], baselines: Sequence[Baseline] | None, *, machine: str, mode: str
) -> dict[str, Any]:
    """The JSON object: word error rates in percent, percentiles (linear interpolation) in milliseconds."""
    if not measured:
        raise ServiceError("no recording was measured: name a folder or a manifest that holds speech")
    said = [one.transcript for one in measured]
    final_ms = percentiles([one.final_ms for one in measured])
    baseline, speedup = None, None
    if baselines is not None:
        baseline_ms = percentiles([one.final_ms for one in baselines])
        baseline = {"wer": _wer(word_errors, said, [one.text for one in baselines]), "final_ms": baseline_ms}
        speedup = round(baseline_ms["p50"] / final_ms["p50"], 2) if baseline_ms["p50"] and final_ms["p50"] else None
    return {
        "utterances": len(measured),
        "wer_final": _wer(word_errors, said, [one.final for one in measured]),
        "wer_stable": _wer(stable_errors, said, [one.stable for one in measured]),
        "retractions": sum(one.retractions for one in measured),
        "first_partial_ms": percentiles([one.first_partial_ms for one in measured]),
        "step_ms": percentiles([ms for one in measured for ms in one.step_ms]),
        "final_ms": final_ms,
        "baseline": baseline,
        "machine": machine,
        "mode": mode,
        "word_shown_ms": percentiles([word.shown_ms for one in measured for word in one.words]),
        "word_stable_ms": percentiles([word.stable_ms for one in measured for word in one.words]),
        "settle_ms": percentiles([ms for one in measured for ms in one.settle_ms]),
        "final_pass_ms": percentiles([ms for one in measured for ms in one.final_pass_ms]),
        "first_partial_needed_ms": percentiles([one.first_partial_needed_ms for one in measured]),
        "word_needed_ms": percentiles([word.needed_ms for one in measured for word in one.words]),
        "guesses": sum(one.guesses for one in measured),
        "guesses_wasted": sum(one.guesses_wasted for one in measured),
        "revisions": sum(one.revisions for one in measured),
        "stable_words_share": _stable_share(measured),
        "seconds": round(sum(one.seconds for one in measured), 2),
        "transcripts_known": sum(one.transcript is not None for one in measured),
        "languages": dict(Counter(one.language or "unknown" for one in measured).most_common()),
        "final_speedup": speedup,
        "turns": [_turn(one, None if baselines is None else baselines[at]) for at, one in enumerate(measured)],
    }


def _turn(one: Measured, baseline: Baseline | None) -> dict[str, Any]:
    known = one.transcript is not None
    errors = word_errors(one.transcript or "", one.final)
    turn = {
        **{field: getattr(one, field) for field in ("name", "language", "transcript", "final", "stable")},
        "seconds": round(one.seconds, 3),
        "word_errors": errors.errors if known else None,
        "words": errors.words if known else None,
        "first_partial_ms": None if one.first_partial_ms is None else round(one.first_partial_ms, 1),
        "step_ms": percentiles(one.step_ms),
        "final_ms": None if one.final_ms is None else round(one.final_ms, 1),
        **{field: getattr(one, field) for field in ("retractions", "revisions", "guesses", "guesses_wasted")},
    }
    if baseline is not None:
        turn["baseline"] = baseline.text
        turn["baseline_word_errors"] = word_errors(one.transcript or "", baseline.text).errors if known else None
        turn["baseline_final_ms"] = round(baseline.final_ms, 1)
    return turn


def _wer(count: Callable[[str, str], WordErrors], said: list[str | None], heard: list[str]) -> float | None:
    """Percent; None where there was nothing to compare: 0 % would be praise for silence."""
    errors = [count(words, text) for words, text in zip(said, heard, strict=True) if words is not None]
    total = sum(errors, WordErrors(0, 0))
    return None if total == WordErrors(0, 0) else round(100 * total.rate, 2)


def _stable_share(measured: Sequence[Measured]) -> float | None:
    """Words at the beginning of the final that were stable before it came, of all its words."""
    kept = total = 0
    for one in measured:
        final = words_of(one.final)
        same = [left == right for left, right in zip(final, words_of(one.stable), strict=False)]
        kept += same.index(False) if False in same else len(same)
        total += len(final)
    return round(kept / total, 4) if total else None


def percentiles(values: Sequence[float | None]) -> dict[str, float | None]:
    """Of what was measured, linearly interpolated, to a tenth; None when nothing was."""
    known = [value for value in values if value is not None]
    if not known:
        return {"p50": None, "p95": None}
    p50, p95 = np.percentile(known, [50, 95])
    return {"p50": round(float(p50), 1), "p95": round(float(p95), 1)}


def as_table(result: dict[str, Any]) -> str:
    """The summary for people."""
    from voice.commands.ask import milliseconds, table

    named = [(label, result[name]) for label, name in _ROWS.items()]
    rates = {"final": result["wer_final"], "stable": result["wer_stable"]}
    if result["baseline"] is not None:
        named.append(("baseline after the endpoint", result["baseline"]["final_ms"]))
        rates["baseline"] = result["baseline"]["wer"]
    rows = [["", "p50", "p95"]]
    rows += [[name, milliseconds(values["p50"]), milliseconds(values["p95"])] for name, values in named]
    errors = ", ".join(f"{name} {'-' if rate is None else f'{rate:.2f} %'}" for name, rate in rates.items())
    lines = [
        f"{result['machine']}, {result['mode']}",
        f"{result['utterances']} utterances ({result['transcripts_known']} transcribed), {result['seconds']:.0f} s",
        f"word error rate: {errors}",
        f"{result['retractions']} retractions, {result['revisions']} revisions, "
        f"{result['guesses_wasted']} of {result['guesses']} guesses wasted",
    ]
    if result["stable_words_share"] is not None:
        lines.append(f"{result['stable_words_share']:.1%} of the final's words were stable before it came")
    if result["final_speedup"] is not None:
        lines.append(f"the final came {result['final_speedup']:.2f} times as fast as the baseline's")
    return "\n" + "\n".join(lines) + f"\n\n{table(rows)}"


def plot_words(measured: Sequence[Measured], path: str) -> None:
    """A PNG: how long after each word it was shown and stable, and after each turn its final, over the turn."""
    words = [word for one in measured for word in one.words]
    series: list[_Series] = [
        ("shown", "tab:blue", [(word.spoken_s, word.shown_ms) for word in words]),
        ("stable", "tab:orange", [(word.spoken_s, word.stable_ms) for word in words]),
        ("final", "tab:green", [(one.seconds, one.final_ms) for one in measured]),
    ]
    _plot(path, "How long after it was said a word comes", "ms after the word's end (final: the turn's)", series)


def plot_steps(measured: Sequence[Measured], path: str) -> None:
    """A PNG: what partial and settling steps cost over the position in the turn: flat, or does it grow?"""
    steps = [at for one in measured for at in zip(one.step_at_s, one.step_ms, strict=True)]
    settles = [at for one in measured for at in zip(one.settle_at_s, one.settle_ms, strict=True)]
    series: list[_Series] = [("partial step", "tab:blue", steps), ("settling step", "tab:orange", settles)]
    _plot(path, "Cost of a step over the turn", "compute, ms", series, running=True)


def _plot(path: str, title: str, unit: str, series: Sequence[_Series], *, running: bool = False) -> None:
    """Points in a colour a series, and a line at their median, or at their running median."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ServiceError('plots need matplotlib: pip install "voice[bench]"') from None

    figure = Figure(figsize=(10, 6), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)  # not pyplot: that would choose a backend for the whole process
    axes = figure.add_subplot()
    for (name, colour, pairs), mark, alpha in zip(series, "ox^", (0.4, 0.4, 0.9), strict=False):
        points = np.array([pair for pair in pairs if pair[1] is not None], dtype=float).reshape(-1, 2)
        median = f"median {np.median(points[:, 1]):.0f} ms" if len(points) else "not measured"
        label = f"{name} (n = {len(points)}, {median})"
        axes.scatter(points[:, 0], points[:, 1], s=20, c=colour, marker=mark, alpha=alpha, linewidths=1, label=label)
        if running:
            line = _running_median(points)
            axes.plot(line[:, 0], line[:, 1], color=colour, linewidth=2.5, label=f"{name}, running median")
        elif len(points):
            axes.axhline(float(np.median(points[:, 1])), color=colour, linewidth=2)
    axes.set(title=title, xlabel="position in the turn, s", ylabel=unit, xlim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise ServiceError(f"{path} cannot be written: {error.strerror or error}; choose another path") from None


def _running_median(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points (s, ms) every quarter of a window; none where fewer than 3 points carry it."""
    made = []
    for middle in np.arange(0.0, points[:, 0].max(initial=0.0) + _WINDOW_S, _WINDOW_S / 4):
        near = points[np.abs(points[:, 0] - middle) <= _WINDOW_S / 2, 1]
        if len(near) >= 3:
            made.append((middle, np.median(near)))
    return np.array(made, dtype=float).reshape(-1, 2)
