"""Speech recognition: audio of one turn in, its words out."""

from __future__ import annotations

import asyncio
import math
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from voice.errors import ModelError, one_line

RATE_HZ = 16_000
MAX_WINDOW_S = 30.0

MIN_WINDOW_S = 10.0
"""Whisper expects 30 s of audio; encoding 10 s is 8 times cheaper for 0.2 points of WER. Less costs more points."""

RIGHT_PADDING_S = 2.0
"""Silence after the speech; with less than a second Whisper starts to loop or stops early."""

FALLBACK_TEMPERATURES = (0.0, 0.2, 0.4, 0.6)
"""Greedy first; a result that looks looped is decoded again, warmer (as in the Whisper paper, section 4.5)."""

MAX_COMPRESSION_RATIO = 2.4
NO_SPEECH_PROBABILITY = 0.6
NO_SPEECH_LOG_PROBABILITY = -1.0


BEAMS = 5
"""Hypotheses kept while decoding; the closest ones are the alternatives of a transcript."""


CLOSE_SPELLING = 2.0
"""Log-probability (nats) that a hypothesis may lack to be taken for its better spelling of the same words."""

SENTENCE_ENDS = frozenset(".?!。？！")


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One reading of the audio and its log-probability (natural, of the whole text)."""

    text: str
    log_probability: float


@dataclass(frozen=True, slots=True)
class Transcript:
    """The words of a turn. ``language`` is Whisper's code; ``alternatives`` are readings in other words, best first."""

    text: str
    language: str
    log_probability: float = 0.0
    no_speech_probability: float = 0.0
    average_log_probability: float = 0.0
    alternatives: tuple[Hypothesis, ...] = ()


class SpeechRecognizer(Protocol):
    """A recogniser that many sessions share."""

    async def transcribe(self, samples: NDArray[np.float32], *, language: str | None, prompt: str | None) -> Transcript:
        """The words in ``samples`` (16 kHz, [-1, 1)). ``language`` None: find out. ``prompt``: vocabulary to expect."""
        ...

    def close(self) -> None:
        """Frees the model and its threads."""
        ...


class FasterWhisper:
    """Whisper on CTranslate2, one decode at a time, with a window only as long as the turn needs."""

    def __init__(self, model: Path, *, device: str = "cpu", compute_type: str = "int8", threads: int = 2) -> None:
        """Loads the model; raises ModelError when the directory does not hold one."""
        import faster_whisper
        from faster_whisper.tokenizer import Tokenizer

        try:
            self._whisper = faster_whisper.WhisperModel(
                str(model), device=device, compute_type=compute_type, cpu_threads=threads, local_files_only=True
            )
        except Exception as error:
            raise ModelError(
                f"{model} cannot be loaded as a Whisper model in CTranslate2 layout ({one_line(error)}): "
                "run `voice models verify`, or convert it with ct2-transformers-converter"
            ) from error
        self._make_tokenizer = Tokenizer
        self._tokenizers: dict[str, Any] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="asr")

    async def transcribe(self, samples: NDArray[np.float32], *, language: str | None, prompt: str | None) -> Transcript:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self.decode, samples, language, prompt)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def decode(self, samples: NDArray[np.float32], language: str | None, prompt: str | None) -> Transcript:
        """As :meth:`transcribe`, in the calling thread."""
        seconds = len(samples) / RATE_HZ
        if seconds + 1.0 > MAX_WINDOW_S:
            return self._decode_long(samples, language, prompt)
        window_s = min(MAX_WINDOW_S, max(seconds + RIGHT_PADDING_S, MIN_WINDOW_S))
        padded = np.zeros(round(window_s * RATE_HZ), dtype=np.float32)
        padded[: len(samples)] = samples
        features = self._whisper.feature_extractor(padded)[:, : round(window_s * 100)]
        encoded = self._whisper.encode(features)
        if language is None:
            language = self._detect(encoded)
        tokenizer = self._tokenizer(language)
        return self._generate(encoded, tokenizer, language, prompt, seconds)

    def _generate(self, encoded: Any, tokenizer: Any, language: str, prompt: str | None, seconds: float) -> Transcript:
        previous = tokenizer.encode(" " + prompt.strip())[-224:] if prompt and prompt.strip() else []
        tokens = self._whisper.get_prompt(tokenizer, previous, without_timestamps=True)
        # About 4 tokens a second of fast speech; twice that, and a floor, never cut a real turn.
        max_length = min(len(tokens) + 32 + round(seconds * 10), self._whisper.max_length)
        best: Transcript | None = None
        for temperature in FALLBACK_TEMPERATURES:
            sampling: dict[str, Any] = {"beam_size": BEAMS, "num_hypotheses": BEAMS}
            if temperature > 0.0:
                sampling = {"beam_size": 1, "sampling_topk": 0, "sampling_temperature": temperature}
            result = self._whisper.model.generate(
                encoded,
                [tokens],
                max_length=max_length,
                return_scores=True,
                return_no_speech_prob=True,
                suppress_blank=True,
                suppress_tokens=[*tokenizer.non_speech_tokens, tokenizer.no_speech],
                **sampling,
            )[0]
            best = _transcript(result, tokenizer, language)
            if not _looped(best.text):
                break
        assert best is not None
        silent = (
            best.no_speech_probability > NO_SPEECH_PROBABILITY
            and best.average_log_probability < NO_SPEECH_LOG_PROBABILITY
        )
        if silent or _looped(best.text):
            return replace(best, text="", alternatives=())
        return best

    def _decode_long(self, samples: NDArray[np.float32], language: str | None, prompt: str | None) -> Transcript:
        """Turns beyond one window: faster-whisper's own sliding window."""
        segments, info = self._whisper.transcribe(
            samples,
            language=language,
            initial_prompt=prompt,
            beam_size=1,
            temperature=list(FALLBACK_TEMPERATURES),
            condition_on_previous_text=False,
        )
        text = " ".join(segment.text.strip() for segment in segments)
        return Transcript(text.strip(), info.language)

    def _tokenizer(self, language: str) -> Any:
        if language not in self._tokenizers:
            multilingual = self._whisper.model.is_multilingual
            try:
                self._tokenizers[language] = self._make_tokenizer(
                    self._whisper.hf_tokenizer, multilingual, task="transcribe", language=language
                )
            except ValueError as error:
                raise ModelError(f"Whisper does not know the language {language!r}: use a code such as en") from error
        return self._tokenizers[language]

    def _detect(self, encoded: Any) -> str:
        if not self._whisper.model.is_multilingual:
            return "en"
        token, _ = self._whisper.model.detect_language(encoded)[0][0]
        return str(token)[2:-2]  # "<|en|>"


def _transcript(result: Any, tokenizer: Any, language: str) -> Transcript:
    """CTranslate2's result (scores are means over the tokens) as a transcript with its alternatives in other words."""
    readings: dict[str, list[Hypothesis]] = {}
    for ids, score in zip(result.sequences_ids, result.scores, strict=True):
        text = tokenizer.decode([token for token in ids if token < tokenizer.eot]).strip()
        words = "".join(character for character in text.lower() if character.isalnum() or character == " ")
        readings.setdefault(words, []).append(Hypothesis(text, score * len(ids)))
    best, *others = [well_written(spellings) for spellings in readings.values()]
    ids, score = result.sequences_ids[0], result.scores[0]
    return Transcript(
        best.text,
        language,
        log_probability=best.log_probability,
        no_speech_probability=result.no_speech_prob,
        average_log_probability=score * len(ids) / (len(ids) + 1),
        alternatives=tuple(others),
    )


def well_written(spellings: Sequence[Hypothesis]) -> Hypothesis:
    """Of hypotheses in the same words, best first: the one written like a sentence, if nearly as likely as the best.

    A LLM takes "And which river runs through it?" for a question, and "and which river runs through it." for nothing.
    """
    best = spellings[0]
    for spelling in spellings:
        close = spelling.log_probability >= best.log_probability - CLOSE_SPELLING
        if close and spelling.text[:1].isupper() and spelling.text[-1:] in SENTENCE_ENDS:
            return Hypothesis(spelling.text, best.log_probability)
    return Hypothesis(best.text[:1].upper() + best.text[1:], best.log_probability)


def _looped(text: str) -> bool:
    """Whether a text repeats itself the way a failed decode does (gzip ratio, as Whisper's reference code)."""
    data = text.encode()
    if len(data) < 64:
        return False
    ratio = len(data) / len(zlib.compress(data))
    return math.isfinite(ratio) and ratio > MAX_COMPRESSION_RATIO
