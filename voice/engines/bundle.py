"""The engine set of one service: found, loaded side by side, run once each, and closed together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from voice.config import Config, EngineConfig
from voice.conversation import ChatMessage
from voice.engines.asr import RATE_HZ, Depth, Listen, SpeechRecognizer
from voice.engines.llm import LanguageModel
from voice.engines.tts import PiperSynthesizer, SpeechSynthesizer
from voice.engines.vad import WINDOW_SAMPLES, SileroVad, VoiceActivityDetector
from voice.engines.whisper import FasterWhisper
from voice.schedule.recognition import RecognitionQueue

log = logging.getLogger(__name__)

Report = Callable[[str], None]

MEMORY_BASE_BYTES = 3 * 2**30
"""Python, torch and vLLM's two processes before any weight."""


@dataclass(slots=True)
class Engines:
    """The four engines; sessions share them. Sessions reach the recogniser through ``recognition`` only."""

    vad: VoiceActivityDetector
    asr: SpeechRecognizer
    llm: LanguageModel
    tts: SpeechSynthesizer
    recognition: RecognitionQueue = field(init=False)

    def __post_init__(self) -> None:
        self.recognition = RecognitionQueue(self.asr)

    async def warm_up(self, system_prompt: str, config: Config, report: Report) -> None:
        """Runs every engine once, as a turn would: the first question is then as fast as the tenth."""
        report("warming up the voice detector")
        await self.vad.stream().probabilities(np.zeros(8 * WINDOW_SAMPLES, dtype=np.float32))
        report("warming up the synthesizer")
        speech = [piece async for piece in self.tts.synthesize("The service is warming up now.", speed=1.0)]
        report("warming up the recogniser")
        from voice.audio.resample import resample

        spoken = resample(np.concatenate(speech), self.tts.rate_hz, RATE_HZ)
        for depth in (Depth.PARTIAL, Depth.SETTLE, Depth.FINAL, Depth.FINAL):
            await self.asr.transcribe([Listen(spoken, depth, config.engines.language)])
        report("warming up the LLM")
        await self.llm.score(["Where is it?", "Where was it?"])
        # Twice: the second request takes the path of a prompt whose front is cached, as every later one does.
        for index in range(2):
            messages = [ChatMessage("system", system_prompt), ChatMessage("user", "Good morning, how are you?")]
            async for _ in self.llm.generate(messages, config.sampling, request_id=f"warm-up-{index}"):
                pass

    async def close(self) -> None:
        """Ends every engine."""
        await self.recognition.close()
        self.vad.close()
        self.asr.close()
        self.tts.close()
        await self.llm.close()


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where the models of one engine set lie."""

    vad: Path
    asr: Path
    tts: Path
    llm: Path | None  # None with --llm-url

    def bytes(self) -> int:
        """Size of all weights on disk."""
        total = 0
        for path in (self.vad, self.asr, self.tts, self.llm):
            if path is None:
                continue
            files = path.iterdir() if path.is_dir() else [path]
            total += sum(file.stat().st_size for file in files if file.is_file())
        return total


def find_models(config: EngineConfig, *, offline: bool) -> ModelFiles:
    """The models that ``config`` names, pulled and built where they are missing.

    Raises:
        ModelError: a model is unknown, cannot be had, or is missing and ``offline`` is set.
        ResourceError: not enough disk space.
    """
    from voice.weights.store import Store

    store = Store(offline=offline)
    return ModelFiles(
        vad=store.ensure(config.vad, "vad"),
        asr=store.ensure(config.asr, "asr"),
        tts=store.ensure(config.tts, "tts"),
        llm=None if config.llm_url else store.ensure(config.llm, "llm"),
    )


async def load_engines(config: EngineConfig, models: ModelFiles, report: Report) -> Engines:
    """Loads all engines, the slow LLM beside the others.

    Raises:
        ModelError: a model does not load.
        ResourceError: not enough memory.
        ServiceError: nothing answers at ``llm_url``.
    """
    from voice.hardware import allowed_cpus, find_gpu, require_memory

    gpu = find_gpu() is not None
    threads = config.threads or allowed_cpus()
    if not gpu:
        kv_cache = int(config.kv_cache_gib * 2**30) if models.llm else 0
        require_memory(MEMORY_BASE_BYTES + 2 * models.bytes() + kv_cache, "the engines")
    report(f"loading the LLM ({config.llm_url or config.llm}), Whisper ({config.asr}) and Piper ({config.tts})")
    try:
        return await _load_side_by_side(config, models, gpu, threads)
    except ExceptionGroup as group:
        raise group.exceptions[0] from None


async def _load_side_by_side(config: EngineConfig, models: ModelFiles, gpu: bool, threads: int) -> Engines:
    device, compute_type = ("cuda", "int8_float16") if gpu else ("cpu", "int8")
    async with asyncio.TaskGroup() as tasks:
        vad = tasks.create_task(asyncio.to_thread(SileroVad, models.vad))
        tts = tasks.create_task(asyncio.to_thread(PiperSynthesizer, models.tts, threads=threads))
        asr = tasks.create_task(
            asyncio.to_thread(FasterWhisper, models.asr, device=device, compute_type=compute_type, threads=threads)
        )
        llm = tasks.create_task(_load_llm(config, models.llm, gpu, threads))
    return Engines(vad=vad.result(), asr=asr.result(), llm=llm.result(), tts=tts.result())


async def _load_llm(config: EngineConfig, model: Path | None, gpu: bool, threads: int) -> LanguageModel:
    if config.llm_url:
        from voice.config import DEFAULT_LLM
        from voice.engines.openai_engine import OpenAiEngine

        name = None if config.llm == DEFAULT_LLM else config.llm
        return await OpenAiEngine.connect(config.llm_url, name, config.llm_api_key, config.max_model_len)
    from voice.engines.vllm_engine import VllmEngine

    assert model is not None  # find_models leaves it out only for llm_url
    return await VllmEngine.start(model, config, gpu=gpu, threads=threads)
