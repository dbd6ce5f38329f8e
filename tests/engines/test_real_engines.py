"""Each real engine by itself, through its protocol."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.recognizing import hear, transcribed
from voice.audio.resample import resample
from voice.audio.wav import read_wav
from voice.bench.words import word_errors
from voice.config import Sampling
from voice.conversation import ChatMessage
from voice.engines.bundle import Engines
from voice.engines.tts import PiperSynthesizer
from voice.engines.vad import RATE_HZ, WINDOW_SAMPLES, SileroVad
from voice.engines.whisper import FasterWhisper
from voice.errors import ModelError

pytestmark = pytest.mark.engines

SENTENCE = "Can you tell me why the sky looks blue during the day?"
QUESTION = [ChatMessage("system", "Answer briefly."), ChatMessage("user", "What is the capital of France?")]
GREEDY = Sampling(temperature=0.0, max_tokens=24)


async def speak(engines: Engines, text: str) -> NDArray[np.float32]:
    """Text as 16 kHz speech."""
    pieces = [piece async for piece in engines.tts.synthesize(text, speed=1.0)]
    return resample(np.concatenate(pieces), engines.tts.rate_hz, RATE_HZ)


def windows(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    return samples[: len(samples) // WINDOW_SAMPLES * WINDOW_SAMPLES]


async def test_the_detector_tells_speech_from_silence(engines: Engines) -> None:
    speech = windows(await speak(engines, SENTENCE))
    silence = np.zeros(32 * WINDOW_SAMPLES, dtype=np.float32)
    stream = engines.vad.stream()
    assert max(await stream.probabilities(silence)) < 0.2
    probabilities = await stream.probabilities(speech)
    assert np.mean(np.array(probabilities) > 0.5) > 0.6


async def test_detector_streams_do_not_disturb_each_other(engines: Engines) -> None:
    speech = windows(await speak(engines, SENTENCE))
    noise = np.random.default_rng(1).normal(0, 0.1, len(speech)).astype(np.float32)
    alone = await engines.vad.stream().probabilities(speech)
    first, second = engines.vad.stream(), engines.vad.stream()
    together = []
    for start in range(0, len(speech), WINDOW_SAMPLES):
        together += await first.probabilities(speech[start : start + WINDOW_SAMPLES])
        await second.probabilities(noise[start : start + WINDOW_SAMPLES])
    assert together == pytest.approx(alone, abs=1e-5)
    first.reset()
    assert await first.probabilities(speech) == pytest.approx(alone, abs=1e-5)


async def test_speech_is_found_after_three_minutes_of_silence(engines: Engines) -> None:
    stream = engines.vad.stream()
    await stream.probabilities(np.zeros(180 * RATE_HZ // WINDOW_SAMPLES * WINDOW_SAMPLES, dtype=np.float32))
    speech = windows(await speak(engines, SENTENCE))
    fresh = await engines.vad.stream().probabilities(speech)
    late = await stream.probabilities(speech)
    first = [next(index for index, value in enumerate(trace) if value > 0.5) for trace in (fresh, late)]
    assert abs(first[0] - first[1]) <= 4  # 4 windows are 128 ms


async def test_whisper_hears_what_piper_says(engines: Engines) -> None:
    speech = await speak(engines, SENTENCE)
    heard = await transcribed(engines.asr, speech)
    assert word_errors(SENTENCE, heard.text).rate <= 0.25  # Piper never says a sentence twice in the same way
    detected = await transcribed(engines.asr, speech, None)
    assert detected.language == "en"


async def test_whisper_takes_a_turn_longer_than_its_window(engines: Engines) -> None:
    speech = await speak(engines, SENTENCE)
    gap = np.zeros(RATE_HZ // 2, dtype=np.float32)
    long_turn = np.concatenate([speech, gap] * (31 * RATE_HZ // (len(speech) + len(gap)) + 1))
    assert len(long_turn) > 30 * RATE_HZ
    heard = (await transcribed(engines.asr, long_turn)).text.lower()
    assert heard.count("sky looks blue") >= 6


async def test_an_unknown_language_is_a_clear_error(engines: Engines) -> None:
    with pytest.raises(ModelError, match="'xx'"):
        await transcribed(engines.asr, np.zeros(RATE_HZ, dtype=np.float32), "xx")


async def test_recordings_are_heard_right(engines: Engines, recordings: Path) -> None:
    samples, rate_hz = read_wav(recordings / "demo" / "q05.wav")
    heard = await transcribed(engines.asr, resample(samples, rate_hz, RATE_HZ))
    assert heard.text == "Who wrote the play Romeo and Juliet?"


async def test_the_llm_knows_which_question_people_ask(engines: Engines) -> None:
    scores = await engines.llm.score(["What is the capital of friends?", "What is the capital of France?"])
    assert scores is not None
    assert scores[1] - scores[0] > 5.0
    (alone,) = await engines.llm.score(["Hello."]) or [1.0]
    assert alone <= 0.0


async def test_what_sounds_alike_is_heard_as_people_mean_it(engines: Engines, recordings: Path) -> None:
    samples, rate_hz = read_wav(recordings / "demo" / "question-capital.wav")
    assert await hear(engines, resample(samples, rate_hz, RATE_HZ)) == "What is the capital of France?"


async def test_piper_speed_changes_the_length(engines: Engines) -> None:
    lengths = []
    for speed in (1.5, 1.0):
        pieces = [piece async for piece in engines.tts.synthesize(SENTENCE, speed=speed)]
        lengths.append(sum(len(piece) for piece in pieces))
    assert 1.2 < lengths[1] / lengths[0] < 1.8


@pytest.mark.parametrize("text", ["日本語のみ", "...", "Привет 你好 hello", "naïve café", "x" * 400])
async def test_piper_survives_any_text(engines: Engines, text: str) -> None:
    async for piece in engines.tts.synthesize(text, speed=1.0):
        assert np.isfinite(piece).all()


async def test_the_llm_answers_and_finds_its_prefix_again(engines: Engines) -> None:
    deltas = [delta async for delta in engines.llm.generate(QUESTION, GREEDY, request_id="first")]
    answer = "".join(delta.text for delta in deltas)
    assert "Paris" in answer
    assert deltas[-1].finish in ("stop", "length")
    assert deltas[-1].prompt_tokens == engines.llm.count_tokens(QUESTION)
    follow_up = [*QUESTION, ChatMessage("assistant", answer), ChatMessage("user", "And which river runs through it?")]
    again = [delta async for delta in engines.llm.generate(follow_up, GREEDY, request_id="second")]
    assert again[-1].cached_tokens >= 32  # a block of the cache
    cold_or_warm = [delta async for delta in engines.llm.generate(QUESTION, GREEDY, request_id="third")]
    assert "".join(delta.text for delta in cold_or_warm) == answer


async def test_llm_requests_run_together(engines: Engines) -> None:
    async def ask(number: int) -> tuple[list[float], str]:
        loop = asyncio.get_running_loop()
        message = ChatMessage("user", f"Say the number {number} and nothing else.")
        times, text = [], ""
        async for delta in engines.llm.generate([message], GREEDY, request_id=f"together-{number}"):
            times.append(loop.time())
            text += delta.text
        return times, text

    results = await asyncio.gather(*(ask(number) for number in (3, 7, 9, 12)))
    # each began before any ended: one batch, not a queue
    assert max(times[0] for times, _ in results) < min(times[-1] for times, _ in results)


async def test_an_abandoned_request_is_aborted_in_the_engine(engines: Engines) -> None:
    running = "vllm:num_requests_running"
    long = Sampling(temperature=0.0, max_tokens=400)
    stream = engines.llm.generate([ChatMessage("user", "Count to one hundred.")], long, request_id="abandoned")
    count = 0
    async for _ in stream:
        count += 1
        if count == 3:
            break
    await stream.aclose()
    from prometheus_client import REGISTRY

    def now_running() -> float:
        for metric in REGISTRY.collect():
            if metric.name == running:
                return float(sum(sample.value for sample in metric.samples))
        raise AssertionError(f"{running} is not exported")

    # The gauge is written with each step of the engine, so another request carries it.
    async for _ in engines.llm.generate(QUESTION, GREEDY, request_id="after"):
        assert now_running() <= 1


@pytest.mark.parametrize("engine", [SileroVad, PiperSynthesizer, FasterWhisper])
def test_a_file_that_is_no_model_is_one_clear_line(engine: type, tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(b"nonsense")
    with pytest.raises(ModelError, match="cannot be loaded") as raised:
        engine(file)
    assert "\n" not in str(raised.value)
