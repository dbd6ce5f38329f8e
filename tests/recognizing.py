"""What tests ask of a recogniser directly."""

from __future__ import annotations

import asyncio

import numpy as np
from numpy.typing import NDArray

from voice.engines.asr import Listen, SpeechRecognizer, Transcript
from voice.engines.bundle import Engines
from voice.hearing.language import LanguageLock
from voice.hearing.listener import Heard, TurnListener


async def transcribed(
    recognizer: SpeechRecognizer, samples: NDArray[np.float32], language: str | None = "en"
) -> Transcript:
    """One final on its own."""
    (transcript,) = await recognizer.transcribe([Listen(samples, language=language)])
    return transcript


async def hear(engines: Engines, samples: NDArray[np.float32], language: str | None = "en") -> str:
    """What a session makes of a whole turn: gates, rescoring by the LLM and all."""
    lock = LanguageLock()
    lock.pinned = language
    listener = TurnListener(
        0,
        0,
        queue=engines.recognition,
        audio=lambda start, end: samples[start:end],
        spawn=asyncio.create_task,
        language=lock,
        score=engines.llm.score,
    )
    heard = await listener.finish(len(samples), len(samples))
    assert isinstance(heard, Heard), heard
    return heard.text
