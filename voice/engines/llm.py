"""The language model: chat messages in, text deltas out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from voice.config import Sampling
from voice.conversation import ChatMessage


@dataclass(frozen=True, slots=True)
class LlmDelta:
    """More text of a reply, and the counts so far.

    ``finish`` is set on the last delta: ``stop`` (the model was done) or ``length`` (the token limit).
    """

    text: str
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    finish: Literal["stop", "length"] | None = None


class LanguageModel(Protocol):
    """A language model that many sessions share."""

    @property
    def name(self) -> str:
        """The model's name, for clients."""
        ...

    @property
    def context_tokens(self) -> int:
        """Longest prompt plus reply."""
        ...

    def count_tokens(self, messages: Sequence[ChatMessage]) -> int:
        """Length of the prompt that ``messages`` make."""
        ...

    def generate(
        self, messages: Sequence[ChatMessage], sampling: Sampling, *, request_id: str
    ) -> AsyncGenerator[LlmDelta, None]:
        """Streams a reply. Closing or cancelling the iterator aborts the request in the engine at once.

        Raises:
            ServiceError: the engine has failed or cannot be reached.
        """
        ...

    async def score(self, texts: Sequence[str]) -> list[float] | None:
        """How likely each text is as a user's message: log-probabilities, all short of the same constant.

        None when the engine cannot tell.
        """
        ...

    def failure(self) -> str | None:
        """Why the engine cannot serve any more; None while it can."""
        ...

    async def close(self) -> None:
        """Ends the engine."""
        ...
