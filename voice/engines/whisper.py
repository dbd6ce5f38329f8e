"""Whisper on CTranslate2: windows only as long as the audio needs, batches where they pay."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from voice.engines.asr import RATE_HZ, Depth, Hypothesis, Listen, Transcript
from voice.engines.spelling import well_written
from voice.errors import ModelError, one_line
from voice.hearing.gates import looped
from voice.hearing.words import Word, retimed

MAX_WINDOW_S = 30.0

FINAL_WINDOW_S = 10.0
"""Whisper expects 30 s of audio; encoding 10 s is 8 times cheaper for 0.2 points of WER. Less costs more points."""

RIGHT_PADDING_S = 2.0
"""Silence after the speech; with less than a second Whisper starts to loop or stops early."""

BEAMS = 5
"""Hypotheses kept while decoding a final; the closest ones are the alternatives of a transcript."""

FALLBACK_TEMPERATURES = (0.0, 0.2, 0.4, 0.6)
"""After a beam that looped: greedy, then warmer and warmer (as in the Whisper paper, section 4.5)."""

BATCH = {Depth.PARTIAL: 2, Depth.SETTLE: 2, Depth.FINAL: 4}
"""Requests in one pass (docs/benchmarks/asr.md). Decoding gains from batches, encoding does not; a final that comes
while a batch runs waits for all of it, so the passes that it may find running stay short."""

BATCH_SPREAD_S = 1.0
"""Windows in one batch differ by no more than this: the shorter ones are padded to the longest."""

TOKENS_A_SECOND = 8
FREE_TOKENS = 16
"""Fast speech has 5 tokens a second. The limit is for loops."""

FRAME_SAMPLES = 320
"""Samples a frame of the encoder's output: 20 ms, the grid of word times."""


class FasterWhisper:
    """The model and the one thread that runs it."""

    def __init__(self, model: Path, *, device: str = "cpu", compute_type: str = "int8", threads: int = 2) -> None:
        """Loads the model; raises ModelError when the directory does not hold one."""
        import faster_whisper
        from faster_whisper.tokenizer import Tokenizer

        try:
            self.whisper = faster_whisper.WhisperModel(
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

    def fits(self, batch: Sequence[Listen], request: Listen) -> bool:
        first = batch[0]
        return (
            len(batch) < BATCH[first.depth]
            and request.depth is first.depth
            and request.timed == first.timed
            and request.language is not None
            and request.language == first.language
            and request.vocabulary == first.vocabulary
            and max(request.seconds, first.seconds) + 1.0 <= MAX_WINDOW_S
            and abs(_window_s(request) - _window_s(first)) <= BATCH_SPREAD_S
        )

    async def transcribe(self, batch: Sequence[Listen]) -> list[Transcript]:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self.decode, batch)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def decode(self, batch: Sequence[Listen]) -> list[Transcript]:
        """As :meth:`transcribe`, in the calling thread."""
        if len(batch) == 1 and batch[0].seconds + 1.0 > MAX_WINDOW_S:
            return [self._decode_long(batch[0])]
        encoded = self._encode(batch)
        language, language_probability = batch[0].language, None
        if language is None:
            language, language_probability = self._detect(encoded)
        tokenizer = self._tokenizer(language)
        found = self._generate(encoded, batch, tokenizer, language, None)
        for index, request in enumerate(batch):
            if request.depth is Depth.FINAL and looped(found[index][0].text):
                found[index] = self._warmer(request, tokenizer, language, found[index])
        transcripts = self._with_words(encoded, batch, found, tokenizer)
        return [replace(transcript, language_probability=language_probability) for transcript in transcripts]

    def _encode(self, batch: Sequence[Listen]) -> Any:
        window_s = max(_window_s(request) for request in batch)
        features = []
        for request in batch:
            padded = np.zeros(round(window_s * RATE_HZ), dtype=np.float32)
            padded[: len(request.samples)] = request.samples
            features.append(self.whisper.feature_extractor(padded)[:, : round(window_s * 100)])
        return self.whisper.encode(np.stack(features))

    def _generate(
        self, encoded: Any, batch: Sequence[Listen], tokenizer: Any, language: str, temperature: float | None
    ) -> list[tuple[Transcript, list[int]]]:
        """Transcripts without times, and their tokens. ``temperature`` None: beam search for finals, else greedy."""
        vocabulary = batch[0].vocabulary
        previous = tokenizer.encode(" " + vocabulary.strip())[-224:] if vocabulary and vocabulary.strip() else []
        prompt = self.whisper.get_prompt(tokenizer, previous, without_timestamps=True)
        longest = max(request.seconds for request in batch)
        sampling: dict[str, Any] = {"beam_size": 1}
        if temperature is None and batch[0].depth is Depth.FINAL:
            sampling = {"beam_size": BEAMS, "num_hypotheses": BEAMS}
        elif temperature:
            sampling = {"beam_size": 1, "sampling_topk": 0, "sampling_temperature": temperature}
        results = self.whisper.model.generate(
            encoded,
            [prompt] * len(batch),
            max_length=min(len(prompt) + FREE_TOKENS + round(longest * TOKENS_A_SECOND), self.whisper.max_length),
            return_scores=True,
            return_no_speech_prob=True,
            suppress_blank=True,
            suppress_tokens=[*tokenizer.non_speech_tokens, tokenizer.no_speech],
            **sampling,
        )
        return [_transcript(result, tokenizer, language) for result in results]

    def _warmer(
        self, request: Listen, tokenizer: Any, language: str, looping: tuple[Transcript, list[int]]
    ) -> tuple[Transcript, list[int]]:
        encoded = self._encode([request])
        for temperature in FALLBACK_TEMPERATURES:
            found = self._generate(encoded, [request], tokenizer, language, temperature)[0]
            if not looped(found[0].text):
                return found
        return looping

    def _with_words(
        self, encoded: Any, batch: Sequence[Listen], found: list[tuple[Transcript, list[int]]], tokenizer: Any
    ) -> list[Transcript]:
        """Word times by teacher-forcing each text once and reading its cross-attention (dynamic time warping)."""
        if batch[0].depth is Depth.PARTIAL and not batch[0].timed:
            return [transcript for transcript, _ in found]
        frames = [max(2, round(request.seconds * 100)) for request in batch]
        texts = [tokens for _, tokens in found]
        if not any(texts):
            return [transcript for transcript, _ in found]
        # An empty text cannot be aligned: the end token stands in for it and makes no word.
        alignments = self.whisper.model.align(
            encoded, tokenizer.sot_sequence, [tokens or [tokenizer.eot] for tokens in texts], frames
        )
        return [
            replace(transcript, words=tuple(retimed(_words(alignment, tokens, tokenizer), transcript.text)))
            for (transcript, tokens), alignment in zip(found, alignments, strict=True)
        ]

    def _decode_long(self, request: Listen) -> Transcript:
        """Audio beyond one window (a turn that nobody stepped through): faster-whisper's own sliding window."""
        segments, info = self.whisper.transcribe(
            request.samples,
            language=request.language,
            initial_prompt=request.vocabulary,
            beam_size=1,
            temperature=list(FALLBACK_TEMPERATURES),
            condition_on_previous_text=False,
            word_timestamps=True,
        )
        words = [word for segment in segments for word in segment.words or ()]
        text = "".join(word.word for word in words).strip()
        timed = [Word(w.word, round(w.start * RATE_HZ), round(w.end * RATE_HZ), w.probability) for w in words]
        return Transcript(text, info.language, words=tuple(timed), language_probability=info.language_probability)

    def _tokenizer(self, language: str) -> Any:
        if language not in self._tokenizers:
            multilingual = self.whisper.model.is_multilingual
            try:
                self._tokenizers[language] = self._make_tokenizer(
                    self.whisper.hf_tokenizer, multilingual, task="transcribe", language=language
                )
            except ValueError as error:
                raise ModelError(f"Whisper does not know the language {language!r}: use a code such as en") from error
        return self._tokenizers[language]

    def _detect(self, encoded: Any) -> tuple[str, float]:
        if not self.whisper.model.is_multilingual:
            return "en", 1.0
        token, probability = self.whisper.model.detect_language(encoded)[0][0]
        return str(token)[2:-2], float(probability)  # "<|en|>"


def _window_s(request: Listen) -> float:
    """Seconds to encode, on a grid of 0.1 s."""
    least = FINAL_WINDOW_S if request.depth is Depth.FINAL else 0.0
    return float(min(MAX_WINDOW_S, max(np.ceil((request.seconds + RIGHT_PADDING_S) * 10) / 10, least)))


def _transcript(result: Any, tokenizer: Any, language: str) -> tuple[Transcript, list[int]]:
    """CTranslate2's result (scores are means over the tokens) as a transcript with its alternatives in other words."""
    readings: dict[str, list[Hypothesis]] = {}
    for ids, score in zip(result.sequences_ids, result.scores, strict=True):
        text = tokenizer.decode([token for token in ids if token < tokenizer.eot]).strip()
        words = "".join(character for character in text.lower() if character.isalnum() or character == " ")
        readings.setdefault(words, []).append(Hypothesis(text, score * len(ids)))
    first, *others = readings.values()
    # Only among several spellings is there one to choose; a greedy text stays as it is.
    best = well_written(first) if len(result.scores) > 1 else first[0]
    ids, score = result.sequences_ids[0], result.scores[0]
    transcript = Transcript(
        best.text,
        language,
        log_probability=best.log_probability,
        no_speech_probability=result.no_speech_prob,
        average_log_probability=score * len(ids) / (len(ids) + 1),
        alternatives=tuple(well_written(spellings) for spellings in others),
    )
    return transcript, [token for token in ids if token < tokenizer.eot]


def _words(alignment: Any, tokens: list[int], tokenizer: Any) -> list[Word]:
    """Words of ``tokens`` with the times at which the alignment path enters them."""
    if not tokens:
        return []
    texts, groups = tokenizer.split_to_word_tokens([*tokens, tokenizer.eot])
    text_steps = np.array([text for text, _ in alignment.alignments])
    frames = np.array([frame for _, frame in alignment.alignments])
    entered = frames[np.flatnonzero(np.diff(text_steps, prepend=-1))] * FRAME_SAMPLES
    words: list[Word] = []
    first = 0
    for text, group in zip(texts[:-1], groups[:-1], strict=True):
        last = first + len(group)
        start, end = int(entered[first]), int(entered[min(last, len(entered) - 1)])
        probability = float(min(alignment.text_token_probs[first:last], default=0.0))
        first = last
        if words and not any(character.isalnum() for character in text):  # punctuation stays with its word
            words[-1] = replace(words[-1], text=words[-1].text + text.strip())
        elif words and not text[:1].isspace() and text[:1].isascii() and not words[-1].text[-1:].isspace():
            words[-1] = replace(words[-1], text=words[-1].text + text, end=end)
        else:
            words.append(Word(text, start, end, probability))
    return words
