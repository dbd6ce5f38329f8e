"""Speech synthesis: one clause of text in, its audio out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from voice.errors import ModelError, one_line
from voice.text.articulation import separate_is


class SpeechSynthesizer(Protocol):
    """A synthesizer that many sessions share."""

    @property
    def rate_hz(self) -> int:
        """Sample rate of what it makes."""
        ...

    @property
    def voice(self) -> str:
        """Name of the voice."""
        ...

    def synthesize(self, text: str, *, speed: float) -> AsyncIterator[NDArray[np.float32]]:
        """The audio of ``text``, mono in [-1, 1], piece by piece. ``speed`` 1 is the voice's own. Closing it stops."""
        ...

    def close(self) -> None:
        """Frees the model and its threads."""
        ...


class PiperSynthesizer:
    """Piper (VITS on onnxruntime, phonemes by espeak-ng), one clause at a time in a thread of its own."""

    def __init__(self, model: Path, *, threads: int = 1) -> None:
        """Loads ``model`` (.onnx, with .onnx.json beside it); raises ModelError when they do not fit together."""
        import onnxruntime
        from piper import PiperVoice
        from piper.config import PiperConfig

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Spinning threads would take the CPU from the LLM's.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            config = PiperConfig.from_dict(json.loads(Path(f"{model}.json").read_text(encoding="utf-8")))
            session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
            english = config.espeak_voice.startswith("en")

            class ArticulateVoice(PiperVoice):  # type: ignore[misc]
                def phonemize(self, text: str) -> list[list[str]]:
                    sentences: list[list[str]] = super().phonemize(text)
                    return [separate_is(phonemes) for phonemes in sentences] if english else sentences

            self._piper = ArticulateVoice(session=session, config=config)
        except Exception as error:
            raise ModelError(
                f"{model} cannot be loaded as a Piper voice ({one_line(error)}): run `voice models verify`, "
                "and see that the .onnx.json lies beside the .onnx"
            ) from error
        self._voice = model.stem
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tts")

    @property
    def rate_hz(self) -> int:
        return int(self._piper.config.sample_rate)

    @property
    def voice(self) -> str:
        return self._voice

    async def synthesize(self, text: str, *, speed: float) -> AsyncIterator[NDArray[np.float32]]:
        loop = asyncio.get_running_loop()
        pieces = self._pieces(text, speed)
        while (piece := await loop.run_in_executor(self._pool, next, pieces, None)) is not None:
            yield piece

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _pieces(self, text: str, speed: float) -> Iterator[NDArray[np.float32]]:
        from piper.config import SynthesisConfig

        base: Any = self._piper.config.length_scale or 1.0
        for chunk in self._piper.synthesize(text, SynthesisConfig(length_scale=base / speed)):
            yield chunk.audio_float_array
