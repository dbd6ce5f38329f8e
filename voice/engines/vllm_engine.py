"""vLLM in this process's control: its engine core is a process of its own that ends with this one.

Continuous batching and prefix caching are on: all sessions share one batch, and a conversation's next prompt costs only
its new words.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from voice.config import EngineConfig, Sampling
from voice.conversation import ChatMessage
from voice.engines.llm import LlmDelta
from voice.errors import ModelError, ServiceError, one_line
from voice.protocol.base import new_id

CPU_BLOCK_TOKENS = 32
"""The smallest block of vLLM's CPU attention."""


ENGINE_NICENESS = 5
"""Of the engine core: a third of the share of a busy core that recognition and synthesis get."""


class VllmEngine:
    """A :class:`~voice.engines.llm.LanguageModel` on vLLM's AsyncLLM."""

    def __init__(self, engine: Any, tokenizer: Any, name: str, context_tokens: int) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._name = name
        self._context_tokens = context_tokens

    @classmethod
    async def start(cls, model: Path, config: EngineConfig, *, gpu: bool, threads: int) -> VllmEngine:
        """Loads the model; takes half a minute on two CPU cores.

        Raises:
            ModelError: vLLM cannot load what is in ``model``.
        """
        logging.getLogger("vllm").setLevel(logging.ERROR)
        for key, value in _environment(gpu, threads).items():
            os.environ.setdefault(key, value)
        # The constructor blocks until the engine core is up: in a thread, so that /healthz answers meanwhile.
        loader = ThreadPoolExecutor(1, initializer=_step_back)
        try:
            return await asyncio.get_running_loop().run_in_executor(loader, cls._load, model, config, gpu)
        finally:
            loader.shutdown(wait=False)

    @classmethod
    def _load(cls, model: Path, config: EngineConfig, gpu: bool) -> VllmEngine:
        from vllm import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM
        from vllm.v1.executor.uniproc_executor import UniProcExecutor

        # On a CPU vLLM would put its worker into a third process and keep one core for the second, which spins while
        # it waits: on two cores that halves the LLM's threads and starves Whisper and Piper. Named as a class, the
        # in-process executor is taken as it is.
        executor = None if gpu else UniProcExecutor
        args = AsyncEngineArgs(
            model=str(model),
            served_model_name=model.name,
            enforce_eager=not config.llm_compile,
            enable_prefix_caching=True,
            # Only whole blocks are shared: vLLM's default of 128 tokens on a CPU would miss every short prompt.
            block_size=None if gpu else CPU_BLOCK_TOKENS,
            max_model_len=config.max_model_len,
            max_num_seqs=config.max_sessions,
            kv_cache_memory_bytes=None if gpu else int(config.kv_cache_gib * 2**30),
            gpu_memory_utilization=config.gpu_memory_utilization,
            distributed_executor_backend=executor,
            use_tqdm_on_load=False,
            disable_log_stats=False,
            enable_log_requests=False,
        )
        try:
            engine = AsyncLLM.from_engine_args(args)
        except Exception as error:
            raise ModelError(
                f"vLLM cannot serve {model} ({one_line(error)}): "
                "see its messages above; `voice models verify` checks the files"
            ) from error
        context = int(engine.model_config.max_model_len)
        return cls(engine, engine.get_tokenizer(), model.name, context)

    @property
    def name(self) -> str:
        return self._name

    @property
    def context_tokens(self) -> int:
        return self._context_tokens

    def count_tokens(self, messages: Sequence[ChatMessage]) -> int:
        return len(self._prompt(messages))

    async def generate(
        self, messages: Sequence[ChatMessage], sampling: Sampling, *, request_id: str
    ) -> AsyncGenerator[LlmDelta, None]:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind
        from vllm.v1.engine.exceptions import EngineDeadError

        prompt = self._prompt(messages)
        params = SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            repetition_penalty=sampling.repetition_penalty,
            max_tokens=sampling.max_tokens,
            output_kind=RequestOutputKind.DELTA,
        )
        stream = self._engine.generate({"prompt_token_ids": prompt}, params, request_id)
        completion_tokens = 0
        try:
            # vLLM aborts the request in its core when this generator is closed or cancelled.
            async with contextlib.aclosing(stream):
                async for output in stream:
                    completion = output.outputs[0]
                    completion_tokens += len(completion.token_ids)
                    yield LlmDelta(
                        text=completion.text,
                        prompt_tokens=len(prompt),
                        cached_tokens=output.num_cached_tokens or 0,
                        completion_tokens=completion_tokens,
                        finish=_finish(completion.finish_reason),
                    )
        except EngineDeadError as error:
            raise ServiceError("the LLM engine has ended: restart the service") from error

    async def score(self, texts: Sequence[str]) -> list[float] | None:
        prompts = [self._prompt([ChatMessage("user", text)], add_generation_prompt=False) for text in texts]
        shared = next((i for i, ids in enumerate(zip(*prompts, strict=False)) if len(set(ids)) > 1), 1)
        return list(await asyncio.gather(*(self._log_probability(prompt, shared) for prompt in prompts)))

    async def _log_probability(self, prompt: list[int], start: int) -> float:
        """Of the tokens of ``prompt`` from ``start`` on, given those before them."""
        from vllm import SamplingParams

        params = SamplingParams(max_tokens=1, prompt_logprobs=0)
        stream = self._engine.generate({"prompt_token_ids": prompt}, params, new_id("score"))
        async with contextlib.aclosing(stream):
            async for output in stream:
                if output.prompt_logprobs is not None:
                    found = zip(prompt[start:], output.prompt_logprobs[start:], strict=True)
                    return float(sum(at_place[token].logprob for token, at_place in found))
        raise ServiceError("the LLM gave no log-probabilities")

    def failure(self) -> str | None:
        return "the LLM engine has ended: restart the service" if self._engine is None or self._engine.errored else None

    async def close(self) -> None:
        engine, self._engine = self._engine, None
        if (handler := engine.output_handler) is not None:
            # It would take the end of the engine core for a crash, and report it.
            handler.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await handler
        await asyncio.to_thread(engine.shutdown, 5.0)
        # AsyncLLM's finalizer shuts down once more; at interpreter exit that fails, and says so.
        engine.shutdown = lambda timeout=None: None

    def _prompt(self, messages: Sequence[ChatMessage], *, add_generation_prompt: bool = True) -> list[int]:
        """Token ids of the conversation in the model's own chat template, ready for the reply."""
        chat = [{"role": message.role, "content": message.content} for message in messages]
        ids = self._tokenizer.apply_chat_template(
            chat, add_generation_prompt=add_generation_prompt, tokenize=True, return_dict=False
        )
        return list(ids)


def _step_back() -> None:
    """Lowers the priority of this thread, and so of the processes that it starts.

    Recognition and synthesis are short and waited for; an LLM that writes ahead of the voice can wait for them.
    """
    with contextlib.suppress(OSError, AttributeError):  # only Linux has priorities of single threads
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), ENGINE_NICENESS)


def _finish(reason: str | None) -> Any:
    if reason is None:
        return None
    return "length" if reason == "length" else "stop"


def _environment(gpu: bool, threads: int) -> Mapping[str, str]:
    """What vLLM reads at import; a value that the user has set stays."""
    environment = {
        "VLLM_LOGGING_LEVEL": "ERROR",
        "PYTHONWARNINGS": "ignore",  # of its processes; this one's are set up already
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",  # the files are all here: nothing is to be asked of a hub
        "TOKENIZERS_PARALLELISM": "false",
    }
    if not gpu:
        environment["OMP_NUM_THREADS"] = str(threads)
        # The threads wait for each other between the many small kernels of a token: spinning for a millisecond or two
        # is a quarter faster than sleeping, and spinning without end would take the cores from Whisper and Piper.
        environment["GOMP_SPINCOUNT"] = "1000000"
    return environment
