"""Voice activity: the probability of speech in each 32 ms window."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from voice.errors import ModelError, one_line

RATE_HZ = 16_000
WINDOW_SAMPLES = 512
CONTEXT_SAMPLES = 64


class VadStream(Protocol):
    """The detector's state for one audio stream."""

    async def probabilities(self, samples: NDArray[np.float32]) -> list[float]:
        """Speech probability of each window. ``samples``: whole windows of 512 samples at 16 kHz, in [-1, 1)."""
        ...

    def reset(self) -> None:
        """Forgets what was heard; call between utterances."""
        ...


class VoiceActivityDetector(Protocol):
    """A detector that many streams share."""

    def stream(self) -> VadStream:
        """Fresh state for one stream."""
        ...

    def close(self) -> None:
        """Frees the threads."""
        ...


class SileroVad:
    """Silero VAD v5 on onnxruntime: one session for all streams; each stream has its own recurrent state.

    The model sees each window behind the last 64 samples of the one before it.
    """

    def __init__(self, model: Path) -> None:
        """Loads the model; raises ModelError when the file is not a Silero VAD."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # a window takes 0.1 ms: more threads only wait for each other
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise ModelError(f"{model} cannot be loaded as an ONNX model: {one_line(error)}") from error
        if {node.name for node in self._session.get_inputs()} != {"input", "state", "sr"}:
            raise ModelError(f"{model} is not a Silero VAD v5 model: use the one that `voice models pull` brings")
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="vad")

    def stream(self) -> SileroStream:
        return SileroStream(self)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def run(self, stream: SileroStream, samples: NDArray[np.float32]) -> list[float]:
        return await asyncio.get_running_loop().run_in_executor(self._pool, stream.advance, samples)

    def infer(
        self, window: NDArray[np.float32], state: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """One step for a batch: window [n, 64 + 512], state [2, n, 128] -> probability [n, 1], state."""
        probability, new_state = self._session.run(
            None, {"input": window, "state": state, "sr": np.array(RATE_HZ, dtype=np.int64)}
        )
        return probability, new_state


class SileroStream:
    """One stream's state of a :class:`SileroVad`."""

    def __init__(self, detector: SileroVad) -> None:
        self._detector = detector
        self.reset()

    def reset(self) -> None:
        self._state = np.zeros((2, 1, 128), dtype=np.float32)
        self._context = np.zeros((1, CONTEXT_SAMPLES), dtype=np.float32)

    async def probabilities(self, samples: NDArray[np.float32]) -> list[float]:
        return await self._detector.run(self, samples)

    def advance(self, samples: NDArray[np.float32]) -> list[float]:
        """As :meth:`probabilities`, in the calling thread."""
        result = []
        for window in samples.reshape(-1, 1, WINDOW_SAMPLES):
            probability, self._state = self._detector.infer(np.hstack([self._context, window]), self._state)
            self._context = window[:, -CONTEXT_SAMPLES:]
            result.append(float(probability[0, 0]))
        return result
