"""Any OpenAI-compatible chat server as the language model: vLLM elsewhere, TensorRT-LLM, llama.cpp, Ollama."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from voice.config import Sampling
from voice.conversation import ChatMessage
from voice.engines.llm import LlmDelta
from voice.errors import ServiceError, one_line

CHARACTERS_A_TOKEN = 3.5
"""A cautious guess for English; servers have no common way to ask for a count."""

MESSAGE_OVERHEAD_TOKENS = 6
"""Template tokens around one message."""

FIRST_BYTE_TIMEOUT_S = 30.0


class OpenAiEngine:
    """A :class:`~voice.engines.llm.LanguageModel` behind ``POST {url}/chat/completions`` with streaming."""

    def __init__(self, client: Any, url: str, model: str, context_tokens: int) -> None:
        self._client = client
        self._url = url
        self._model = model
        self._context_tokens = context_tokens

    @classmethod
    async def connect(cls, url: str, model: str | None, api_key: str | None, context_tokens: int) -> OpenAiEngine:
        """Finds the server. ``model`` None takes the first that it lists.

        Raises:
            ServiceError: nothing answers at ``url``, or it lists no model.
        """
        import httpx

        url = url.rstrip("/")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        timeout = httpx.Timeout(FIRST_BYTE_TIMEOUT_S, connect=5.0)
        client = httpx.AsyncClient(headers=headers, timeout=timeout)
        if model is None:
            try:
                answer = await client.get(f"{url}/models")
                answer.raise_for_status()
                listed = [str(entry["id"]) for entry in answer.json()["data"]]
            except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
                await client.aclose()
                raise ServiceError(
                    f"no OpenAI-compatible server at {url} ({one_line(error)}): "
                    "start it, and give --llm-url with its /v1, such as http://127.0.0.1:8000/v1"
                ) from error
            if not listed:
                await client.aclose()
                raise ServiceError(f"the server at {url} lists no model: load one there, or name it with --llm")
            model = listed[0]
        return cls(client, url, model, context_tokens)

    @property
    def name(self) -> str:
        return self._model

    @property
    def context_tokens(self) -> int:
        return self._context_tokens

    def count_tokens(self, messages: Sequence[ChatMessage]) -> int:
        return sum(MESSAGE_OVERHEAD_TOKENS + round(len(message.content) / CHARACTERS_A_TOKEN) for message in messages)

    async def generate(
        self, messages: Sequence[ChatMessage], sampling: Sampling, *, request_id: str
    ) -> AsyncGenerator[LlmDelta, None]:
        import httpx

        body = {
            "model": self._model,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
        }
        counts = LlmDelta("", prompt_tokens=self.count_tokens(messages))
        finish: Any = None
        try:
            # Leaving the block closes the connection, on which servers abort the request.
            async with self._client.stream(
                "POST", f"{self._url}/chat/completions", json=body, headers={"X-Request-Id": request_id}
            ) as answer:
                if answer.status_code != 200:
                    detail = (await answer.aread()).decode(errors="replace").strip()[:200]
                    raise ServiceError(f"the LLM server answered {answer.status_code}: {detail}")
                async for line in answer.aiter_lines():
                    data = line.removeprefix("data:").strip()
                    if not line.startswith("data:") or data == "[DONE]":
                        continue
                    chunk = json.loads(data)
                    counts = _counts(chunk.get("usage"), counts)
                    for choice in chunk.get("choices", ())[:1]:
                        text = (choice.get("delta") or {}).get("content") or ""
                        reason = choice.get("finish_reason")
                        finish = ("length" if reason == "length" else "stop") if reason else finish
                        if text:
                            counts = _one_more(counts)
                            yield LlmDelta(text, counts.prompt_tokens, counts.cached_tokens, counts.completion_tokens)
        except (httpx.HTTPError, ValueError, AttributeError) as error:
            raise ServiceError(f"the LLM server at {self._url} failed ({one_line(error)})") from error
        yield LlmDelta(
            "", counts.prompt_tokens, counts.cached_tokens, counts.completion_tokens, finish=finish or "stop"
        )

    async def score(self, texts: Sequence[str]) -> list[float] | None:
        return None  # chat servers give no probability of a prompt

    def failure(self) -> str | None:
        return None

    async def close(self) -> None:
        await self._client.aclose()


def _counts(usage: Any, before: LlmDelta) -> LlmDelta:
    if not isinstance(usage, dict):
        return before
    details = usage.get("prompt_tokens_details") or {}
    return LlmDelta(
        "",
        prompt_tokens=int(usage.get("prompt_tokens") or before.prompt_tokens),
        cached_tokens=int(details.get("cached_tokens") or 0),
        completion_tokens=int(usage.get("completion_tokens") or before.completion_tokens),
    )


def _one_more(counts: LlmDelta) -> LlmDelta:
    return LlmDelta("", counts.prompt_tokens, counts.cached_tokens, counts.completion_tokens + 1)
