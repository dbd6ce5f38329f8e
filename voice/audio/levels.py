"""How loud sound is, and where in it somebody can be heard."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SILENCE_DBFS = -120.0
"""What ``rms_dbfs`` says of digital silence: below anything that 16 bits can hold, and a number that JSON can hold."""

AUDIBLE_DBFS = -50.0
"""Quieter than this is silence. Piper pauses at about -60 dBFS; a quiet voice on a laptop microphone speaks at -40."""

_FRAME_MS = 5.0
"""Energy is taken over frames of this length: short against a syllable, long enough that a click stays small."""

_RUN_FRAMES = 3
"""Frames of ``last_audible`` that must be loud together: a single click at the end is not the end of the speech."""

_ABOVE_NOISE_DB = 10.0
"""Speech in a recording stands out of that recording's own noise by at least this much."""

_BELOW_SPEECH_DB = 30.0
"""However noisy the quietest part is, a frame this far below the loudest is not lost speech."""


def rms_dbfs(samples: NDArray[np.float32]) -> float:
    """Root mean square in dB relative to full scale (a full-scale square wave is 0); ``SILENCE_DBFS`` at the least."""
    if samples.size == 0:
        return SILENCE_DBFS
    power = float(np.mean(np.square(samples, dtype=np.float64)))
    return max(10.0 * float(np.log10(power)), SILENCE_DBFS) if power > 0.0 else SILENCE_DBFS


def _frame_levels(samples: NDArray[np.float32], frame: int) -> NDArray[np.float64]:
    """RMS in dBFS of each frame of ``frame`` samples; the last frame may be shorter."""
    starts = np.arange(0, samples.size, frame)
    energy = np.add.reduceat(np.square(samples, dtype=np.float64), starts)
    lengths = np.minimum(frame, samples.size - starts)
    levels: NDArray[np.float64] = 10.0 * np.log10(np.maximum(energy / lengths, 1e-12))
    return levels


def _frame_samples(rate_hz: int) -> int:
    return max(1, round(rate_hz * _FRAME_MS / 1000.0))


def first_audible(samples: NDArray[np.float32], rate_hz: int, threshold_dbfs: float = AUDIBLE_DBFS) -> int | None:
    """Index of the sample where leading silence ends; None when there is nothing but silence.

    Causal: it looks at complete frames of 5 ms only up to the first loud one, so the answer for the beginning of a
    stream does not change as more of the stream arrives.
    """
    frame = _frame_samples(rate_hz)
    if samples.size == 0:
        return None
    loud = np.flatnonzero(_frame_levels(samples, frame) >= threshold_dbfs)
    if loud.size == 0:
        return None
    start = int(loud[0]) * frame
    amplitude = 10.0 ** (threshold_dbfs / 20.0)
    return start + int(np.argmax(np.abs(samples[start : start + frame]) >= amplitude))


def last_audible(samples: NDArray[np.float32], rate_hz: int) -> int | None:
    """Index of the last voiced sample of a recording (to 5 ms); None when nothing stands out of silence.

    The threshold follows the recording: 10 dB above its quietest tenth, but never below -50 dBFS and never less than
    30 dB under its loudest frames. Frames count only in runs of 15 ms, so clicks do not.
    """
    frame = _frame_samples(rate_hz)
    if samples.size == 0:
        return None
    levels = _frame_levels(samples, frame)
    loudest = float(np.percentile(levels, 99.0))
    noise = float(np.percentile(levels, 10.0))
    threshold = max(min(noise + _ABOVE_NOISE_DB, loudest - _BELOW_SPEECH_DB), AUDIBLE_DBFS)
    loud = levels >= threshold
    if loud.size >= _RUN_FRAMES:
        runs = np.convolve(loud.astype(np.int64), np.ones(_RUN_FRAMES, dtype=np.int64), mode="valid")
        ends = np.flatnonzero(runs == _RUN_FRAMES) + _RUN_FRAMES - 1
    else:
        ends = np.flatnonzero(loud)
    if ends.size == 0:
        return None
    return min((int(ends[-1]) + 1) * frame, samples.size) - 1


def trim_silence(samples: NDArray[np.float32], rate_hz: int, *, keep_ms: float = 20.0) -> NDArray[np.float32]:
    """The sound without the silence around it, but with ``keep_ms`` of it on each side; empty when all is silence."""
    first = first_audible(samples, rate_hz)
    last = last_audible(samples, rate_hz)
    if first is None or last is None:
        return samples[:0]
    keep = round(rate_hz * keep_ms / 1000.0)
    return samples[max(0, min(first, last) - keep) : last + 1 + keep]


def fade(samples: NDArray[np.float32], rate_hz: int, *, ms: float = 5.0) -> NDArray[np.float32]:
    """A copy that starts and ends without a click: a raised cosine of ``ms`` (at most half the sound) at both ends."""
    faded = np.array(samples, dtype=np.float32)
    ramp = min(round(rate_hz * ms / 1000.0), faded.size // 2)
    if ramp > 0:
        gain = (0.5 - 0.5 * np.cos(np.pi * np.arange(ramp) / ramp)).astype(np.float32)
        faded[:ramp] *= gain
        faded[faded.size - ramp :] *= gain[::-1]
    return faded
