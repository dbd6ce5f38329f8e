"""One model's replies to all questions under many prompts and samplings, by real vLLM in a process of its own.

Run as ``python -m voice.bench.replies RESULT``: a JSON job comes in on stdin, its result is written to the file RESULT.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from voice.config import Sampling
from voice.errors import ModelError

MAX_MODEL_LEN = 1024
SEED = 0
"""Of each request that samples: the same candidate gets the same replies again."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A system prompt with a sampling."""

    system: str | None
    """None sends no system message: some chat templates then put in one of their own."""

    sampling: Sampling


@dataclass(frozen=True, slots=True)
class Replies:
    """What one model said under one candidate."""

    texts: list[list[str]]
    """Per conversation, per turn."""

    finished: list[list[bool]]
    """Whether the model ended the reply itself, before max_tokens."""

    tokens: int
    """Generated, over all replies."""

    seconds: float


def ask(
    model: Path,
    candidates: Sequence[Candidate],
    conversations: Sequence[Sequence[str]],
    batch: int,
    report: Callable[[str], None],
) -> list[Replies]:
    """Puts the conversations (what the user says, turn by turn) to a model, up to `batch` at a time.

    vLLM lives in a child process, so that its memory is free again before the next model. `report` gets its progress
    lines. Raises ModelError with vLLM's last line when it fails.
    """
    job = {
        "model": str(model),
        "candidates": [asdict(candidate) for candidate in candidates],
        "conversations": [list(turns) for turns in conversations],
        "batch": batch,
    }
    environment = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    } | os.environ
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, "-m", __name__, str(result)]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env=environment,
        ) as child:
            assert child.stdin is not None and child.stderr is not None
            child.stdin.write(json.dumps(job))
            child.stdin.close()
            last = ""
            for line in child.stderr:
                if line.startswith("> "):
                    report(line[2:].rstrip())
                elif line.strip():
                    last = line.strip()
        if child.returncode != 0 or not result.exists():
            raise ModelError(f"vLLM cannot run {model}, check that it is a complete model ({last[:200]})")
        return [Replies(**entry) for entry in json.loads(result.read_text(encoding="utf-8"))]


def _answer(llm: Any, tokenizer: Any, candidate: Candidate, conversations: list[list[str]]) -> Replies:
    from vllm import SamplingParams

    sampling = candidate.sampling
    params = SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        repetition_penalty=sampling.repetition_penalty,
        max_tokens=sampling.max_tokens,
        seed=SEED if sampling.temperature > 0 else None,
    )
    start: list[dict[str, str]] = []
    if candidate.system is not None:
        start.append({"role": "system", "content": candidate.system})
    replies = Replies([[] for _ in conversations], [[] for _ in conversations], 0, 0.0)
    tokens, began = 0, time.monotonic()
    for turn in range(max(len(turns) for turns in conversations)):
        prompts, owners = [], []
        for index, turns in enumerate(conversations):
            if turn >= len(turns):
                continue
            messages = list(start)
            for past in range(turn):
                messages.append({"role": "user", "content": turns[past]})
                messages.append({"role": "assistant", "content": replies.texts[index][past]})
            messages.append({"role": "user", "content": turns[turn]})
            ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
            prompts.append({"prompt_token_ids": list(ids)})
            owners.append(index)
        for index, output in zip(owners, llm.generate(prompts, params, use_tqdm=False), strict=True):
            completion = output.outputs[0]
            replies.texts[index].append(completion.text.strip())
            replies.finished[index].append(completion.finish_reason == "stop")
            tokens += len(completion.token_ids)
    return Replies(replies.texts, replies.finished, tokens, round(time.monotonic() - began, 2))


def main(result: Path) -> None:
    """The child process: job on stdin, progress lines (marked "> ") on stderr, result in a file."""
    job = json.load(sys.stdin)
    from vllm import LLM

    began = time.monotonic()
    llm = LLM(
        model=job["model"],
        max_model_len=MAX_MODEL_LEN,
        max_num_seqs=job["batch"],
        enforce_eager=True,
        gpu_memory_utilization=0.4,
        generation_config="vllm",
        seed=SEED,
    )
    tokenizer = llm.get_tokenizer()
    sys.stderr.write(f"> loaded in {time.monotonic() - began:.0f} s\n")
    answers = []
    for number, entry in enumerate(job["candidates"], start=1):
        candidate = Candidate(entry["system"], Sampling(**entry["sampling"]))
        replies = _answer(llm, tokenizer, candidate, job["conversations"])
        answers.append(asdict(replies))
        sys.stderr.write(f"> {number} of {len(job['candidates'])}: {replies.seconds:.0f} s\n")
        sys.stderr.flush()
    result.write_text(json.dumps(answers), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
