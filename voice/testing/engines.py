"""Engines that follow a script: what they say, how long they take, when they fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from voice.config import Sampling
from voice.conversation import ChatMessage
from voice.engines.asr import Depth, Listen, Transcript
from voice.engines.bundle import Engines
from voice.engines.llm import LlmDelta
from voice.engines.vad import WINDOW_SAMPLES

Step = str | float | Exception
"""One step of a scripted reply: text to give, seconds to wait, or an error to raise."""


def loudness(window: NDArray[np.float32]) -> float:
    """The default "detector": loud is speech."""
    return 0.95 if float(np.sqrt(np.mean(np.square(window)))) > 0.01 else 0.02


class ScriptedVad:
    """Gives listed probabilities, one a window, then 0; or, without a list, judges by loudness."""

    def __init__(self, probabilities: Sequence[float] | None = None) -> None:
        self.script = list(probabilities) if probabilities is not None else None
        self.windows = 0
        self.resets = 0

    def stream(self) -> ScriptedVad:
        return self

    def reset(self) -> None:
        self.resets += 1

    async def probabilities(self, samples: NDArray[np.float32]) -> list[float]:
        windows = samples.reshape(-1, WINDOW_SAMPLES)
        self.windows += len(windows)
        if self.script is None:
            return [loudness(window) for window in windows]
        given = self.script[: len(windows)]
        del self.script[: len(windows)]
        return given + [0.0] * (len(windows) - len(given))

    def close(self) -> None:
        pass


class ScriptedRecognizer:
    """Gives listed transcripts to finals in order (the last one again and again); an Exception in the list is raised.

    Looks at running speech get ``partials`` in the same way; by default they see no words.
    """

    def __init__(
        self,
        transcripts: Sequence[str | Transcript | Exception] | Callable[[Listen], str | Transcript] = ("hello",),
        *,
        partials: Sequence[str | Transcript | Exception] | Callable[[Listen], str | Transcript] = ("",),
        delay_s: float | Callable[[Sequence[Listen]], float] = 0.0,
        most: int = 1,
    ) -> None:
        """``delay_s``: of a pass, or a function of its requests; ``most``: requests that one pass takes."""
        self._scripts = {True: transcripts, False: partials}
        self._delay_s = delay_s
        self._most = most
        self._running = 0
        self.most_running = 0
        self.finals: list[Listen] = []
        self.looks: list[Listen] = []
        self.passes: list[list[Listen]] = []

    @property
    def heard(self) -> list[NDArray[np.float32]]:
        """The audio of the finals."""
        return [request.samples for request in self.finals]

    def fits(self, batch: Sequence[Listen], request: Listen) -> bool:
        return len(batch) < self._most and request.depth is batch[0].depth

    async def transcribe(self, batch: Sequence[Listen]) -> list[Transcript]:
        self.passes.append(list(batch))
        self._running += 1
        self.most_running = max(self.most_running, self._running)
        results = [self._next(request) for request in batch]
        delay_s = self._delay_s(batch) if callable(self._delay_s) else self._delay_s
        try:
            if delay_s:
                await asyncio.sleep(delay_s)
        finally:
            self._running -= 1
        for result in results:
            if isinstance(result, Exception):
                raise result
        return [result for result in results if isinstance(result, Transcript)]

    def _next(self, request: Listen) -> Transcript | Exception:
        final = request.depth is Depth.FINAL
        seen, script = self.finals if final else self.looks, self._scripts[final]
        result = script(request) if callable(script) else script[min(len(seen), len(script) - 1)]
        seen.append(request)
        return Transcript(result, request.language or "en") if isinstance(result, str) else result

    def close(self) -> None:
        pass


class ScriptedLanguageModel:
    """Plays listed replies in order (the last one again and again), or one made by a function of the messages."""

    def __init__(
        self,
        replies: Sequence[Sequence[Step]] | Callable[[Sequence[ChatMessage]], Sequence[Step]] = (("Hello there.",),),
        *,
        context_tokens: int = 2048,
        likelihoods: Mapping[str, float] | None = None,
    ) -> None:
        self.likelihoods = likelihoods
        self._replies = replies
        self._context_tokens = context_tokens
        self.prompts: list[list[ChatMessage]] = []
        self.samplings: list[Sampling] = []
        self.running: set[str] = set()
        self.aborted: list[str] = []
        self.most_running = 0

    @property
    def name(self) -> str:
        return "scripted"

    @property
    def context_tokens(self) -> int:
        return self._context_tokens

    def count_tokens(self, messages: Sequence[ChatMessage]) -> int:
        """A word is a token."""
        return sum(len(message.content.split()) + 1 for message in messages)

    async def generate(
        self, messages: Sequence[ChatMessage], sampling: Sampling, *, request_id: str
    ) -> AsyncGenerator[LlmDelta, None]:
        index = len(self.prompts)
        self.prompts.append(list(messages))
        self.samplings.append(sampling)
        if callable(self._replies):
            steps = self._replies(messages)
        else:
            steps = self._replies[min(index, len(self._replies) - 1)]
        self.running.add(request_id)
        self.most_running = max(self.most_running, len(self.running))
        tokens = 0
        finished = False
        try:
            for step in steps:
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, float):
                    await asyncio.sleep(step)
                    continue
                if tokens >= sampling.max_tokens:
                    finished = True
                    yield LlmDelta("", self.count_tokens(messages), 0, tokens, finish="length")
                    return
                tokens += 1
                yield LlmDelta(step, self.count_tokens(messages), 0, tokens)
            finished = True
            yield LlmDelta("", self.count_tokens(messages), 0, tokens, finish="stop")
        finally:
            self.running.discard(request_id)
            if not finished:
                self.aborted.append(request_id)

    async def score(self, texts: Sequence[str]) -> list[float] | None:
        """As scripted; without a script this model cannot tell."""
        return None if self.likelihoods is None else [self.likelihoods.get(text, -100.0) for text in texts]

    def failure(self) -> str | None:
        return None

    async def close(self) -> None:
        pass


class ScriptedSynthesizer:
    """A steady tone, as long as the text; each piece takes ``delay_s``."""

    def __init__(
        self,
        *,
        rate_hz: int = 22_050,
        seconds_a_character: float = 0.06,
        delay_s: float = 0.0,
        fail_on: str | None = None,
    ) -> None:
        self._rate_hz = rate_hz
        self._seconds_a_character = seconds_a_character
        self._delay_s = delay_s
        self._fail_on = fail_on
        self.spoken: list[str] = []

    @property
    def rate_hz(self) -> int:
        return self._rate_hz

    @property
    def voice(self) -> str:
        return "tone"

    async def synthesize(self, text: str, *, speed: float) -> AsyncIterator[NDArray[np.float32]]:
        self.spoken.append(text)
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        if self._fail_on is not None and self._fail_on in text:
            raise RuntimeError("the scripted synthesizer fails here")
        count = round(len(text) * self._seconds_a_character * self._rate_hz / speed)
        yield (0.3 * np.sin(2 * np.pi * 440 * np.arange(count) / self._rate_hz)).astype(np.float32)

    def close(self) -> None:
        pass


def scripted_engines(
    *,
    vad: ScriptedVad | None = None,
    asr: ScriptedRecognizer | None = None,
    llm: ScriptedLanguageModel | None = None,
    tts: ScriptedSynthesizer | None = None,
) -> Engines:
    """An engine set of fakes; any of them can be given."""
    return Engines(
        vad=vad or ScriptedVad(),
        asr=asr or ScriptedRecognizer(),
        llm=llm or ScriptedLanguageModel(),
        tts=tts or ScriptedSynthesizer(),
    )
