"""`voice bench asr`: recordings streamed to the recogniser as by a session, beside whole-utterance faster-whisper."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TextIO

import numpy as np

from voice.bench.asr_report import Baseline, Measured, as_table, plot_steps, plot_words, summarize
from voice.bench.asr_stream import ComputeClockLoop, Stream
from voice.bench.recordings import Entry, Recording, find, load
from voice.errors import ServiceError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    from voice.config import DEFAULT_ASR

    parser.add_argument("source", metavar="DIR|MANIFEST", help="a folder of recordings, or a manifest of JSON lines")
    parser.add_argument("--only", metavar="FILE", help="a list of the manifest's paths: take these, in this order")
    parser.add_argument("--language", metavar="CODE", help="only recordings in this language")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N of them")
    parser.add_argument("--detect", action="store_true", help="find the language (default: the manifest's is given)")
    parser.add_argument("--noise", metavar="FILE", help="mix this recording under the speech, again and again")
    parser.add_argument("--snr", type=float, default=10.0, metavar="DB", help="how far below the speech (default 10)")
    parser.add_argument("--join", action="store_true", help="all recordings as one long turn")
    parser.add_argument("--sessions", type=int, default=1, metavar="N", help="stream so many at once (default 1)")
    parser.add_argument("--no-guess", action="store_true", help="begin no final in a pause: the final's cost is seen")
    parser.add_argument("--no-partials", action="store_true", help="only finals")
    parser.add_argument("--baseline", action="store_true", help="the same by whole-utterance faster-whisper")
    parser.add_argument("--fast", action="store_true", help="do not wait for the audio; compute takes its real time")
    parser.add_argument("--asr", default=DEFAULT_ASR, metavar="MODEL", help=f"the recogniser (default {DEFAULT_ASR})")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: the CPUs of this process)")
    parser.add_argument("--plot", metavar="PNG", help="plot the latency of each word")
    parser.add_argument("--plot-steps", metavar="PNG", help="plot the cost of each step over the turn")
    parser.add_argument("--json", action="store_true", help="print one JSON object; progress goes to stderr")


def run(args: argparse.Namespace) -> int:
    """Runs the benchmark; raises a VoiceError, one line, for what cannot be read or loaded."""
    from voice.hardware import machine_name

    if args.sessions < 1:
        raise ServiceError(f"--sessions {args.sessions} streams nothing: give 1 or more")
    if args.baseline and args.sessions > 1:
        raise ServiceError("--baseline measures one recording at a time: leave out --sessions")
    recordings = [load(entry) for entry in find(args.source, only=args.only, limit=args.limit, language=args.language)]
    if args.noise:
        noise = load(find_one(args.noise))
        recordings = [with_noise(one, noise, args.snr) for one in recordings]
    if args.join:
        recordings = [joined(recordings)]
    screen = sys.stderr if args.json else sys.stdout
    main = _measure(args, recordings, screen)
    if args.fast:
        with asyncio.Runner(loop_factory=ComputeClockLoop) as runner:
            measured, baselines = runner.run(main)
    else:
        measured, baselines = asyncio.run(main)
    mode = [f"{args.asr}", "faster than real time" if args.fast else "real time"]
    if args.sessions > 1:
        mode.append(f"{args.sessions} sessions at once")
    mode += [name for name in ("no guess", "no partials") if getattr(args, name.replace(" ", "_"))]
    if args.noise:
        mode.append(f"{args.noise.rsplit('/', 1)[-1]} at {args.snr:g} dB")
    result = summarize(measured, baselines if args.baseline else None, machine=machine_name(), mode=", ".join(mode))
    if args.plot:
        plot_words(measured, args.plot)
    if args.plot_steps:
        plot_steps(measured, args.plot_steps)
    print(json.dumps(result) if args.json else as_table(result))
    return 0


def find_one(path: str) -> Entry:
    """One file as an entry."""
    from pathlib import Path

    return Entry(path, Path(path))


def with_noise(recording: Recording, noise: Recording, snr_db: float) -> Recording:
    """The recording with noise at ``snr_db`` below it (mean powers), repeated to its length."""
    under = np.resize(noise.samples, len(recording.samples))
    power = float(np.mean(np.square(recording.samples))) / max(float(np.mean(np.square(under))), 1e-12)
    mixed = recording.samples + under * np.float32(np.sqrt(power / 10 ** (snr_db / 10)))
    return replace(recording, samples=(mixed / max(1.0, float(np.abs(mixed).max()))).astype(np.float32))


def joined(recordings: Sequence[Recording]) -> Recording:
    """All recordings in one, 0.3 s apart: one long turn."""
    gap = np.zeros(round(0.3 * 16_000), dtype=np.float32)
    parts = [part for one in recordings for part in (one.samples, gap)]
    transcripts = [one.transcript for one in recordings if one.transcript is not None]
    whole = " ".join(transcripts) if len(transcripts) == len(recordings) else None
    name = f"{recordings[0].name} and {len(recordings) - 1} more"
    return replace(recordings[0], name=name, samples=np.concatenate(parts), transcript=whole)


async def _measure(
    args: argparse.Namespace, recordings: Sequence[Recording], screen: TextIO
) -> tuple[list[Measured], list[Baseline]]:
    from voice.engines.asr import Depth, Listen
    from voice.engines.vad import SileroVad
    from voice.engines.whisper import BEAMS, FasterWhisper
    from voice.hardware import allowed_cpus, find_gpu
    from voice.schedule.recognition import RecognitionQueue
    from voice.weights.store import Store

    store = Store()
    device, compute_type = ("cpu", "int8") if find_gpu() is None else ("cuda", "int8_float16")
    threads = args.threads or allowed_cpus()
    whisper = FasterWhisper(store.ensure(args.asr, "asr"), device=device, compute_type=compute_type, threads=threads)
    vad = SileroVad(store.ensure("silero-vad", "vad"))
    for depth in Depth:  # warm
        whisper.decode([Listen(recordings[0].samples[: 16_000 * 3], depth, "en")])
    queue = RecognitionQueue(whisper)
    stream = Stream(vad, queue, looks=not args.no_partials, guesses=not args.no_guess)
    measured: dict[int, Measured] = {}
    baselines: dict[int, Baseline] = {}
    waiting = list(enumerate(recordings))[::-1]

    async def session() -> None:
        while waiting:
            index, recording = waiting.pop()
            language = None if args.detect else recording.language or args.language or "en"
            one = measured[index] = await stream.play(recording, language)
            line = f"[{len(measured)}/{len(recordings)}] {recording.name}: {one.final}"
            if args.baseline:
                started = time.perf_counter()
                segments, _ = whisper.whisper.transcribe(recording.samples, language=language, beam_size=BEAMS)
                text = "".join(segment.text for segment in segments).strip()
                baselines[index] = Baseline(text, 1000 * (time.perf_counter() - started))
            print(line, file=screen, flush=True)

    await asyncio.gather(*(session() for _ in range(args.sessions)))
    await queue.close()
    whisper.close()
    vad.close()
    return [measured[index] for index in sorted(measured)], [baselines[index] for index in sorted(baselines)]
