"""Reading a GGUF file (llama.cpp's format, with its block-wise quantization undone) as a transformers model."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import torch

from voice.errors import ModelError

DIGIT_SPLITTING = frozenset({"smollm", "starcoder", "refact", "command-r"})
"""Values of tokenizer.ggml.pre under which every digit is a word of its own before merges apply."""


def is_gguf(path: Path) -> bool:
    """Whether `path` is a file that says it is GGUF, by its name or by its first four bytes."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"GGUF" or path.suffix.lower() == ".gguf"


def load(path: Path, dtype: torch.dtype) -> tuple[Any, Any]:
    """The model, dequantized to `dtype`, and its tokenizer. Raises ModelError when the file cannot be read."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import is_accelerate_available

    if not is_accelerate_available():
        raise ModelError("reading GGUF files needs the package accelerate: pip install accelerate")
    where, name = str(path.parent), path.name
    try:
        splitting = _check(path)
        with contextlib.redirect_stderr(io.StringIO()):  # its progress bar cannot be switched off
            tokenizer = AutoTokenizer.from_pretrained(where, gguf_file=name)
            model = AutoModelForCausalLM.from_pretrained(
                where, gguf_file=name, quantization_config=GgufConfig(dequantize=True), dtype=dtype
            )
    except Exception as error:  # the readers raise whatever the broken bytes lead them to
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ModelError(
            f"{path} is not a complete GGUF language model, fetch it again or take another ({reason[:160]})"
        ) from error
    if splitting in DIGIT_SPLITTING:
        _split_digits(tokenizer)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config  # what is in memory is not quantized any more
    return model, tokenizer


def _check(path: Path) -> str:
    """The file's tokenizer.ggml.pre ("" where it has none). Raises ValueError when its last tensor is cut off."""
    from gguf import GGUFReader

    reader = GGUFReader(path)  # raises where the header or the tensor table is cut off
    end = max((tensor.data_offset + int(tensor.n_bytes) for tensor in reader.tensors), default=0)
    if end == 0 or end > path.stat().st_size:
        raise ValueError(f"{path.stat().st_size:,} bytes of {end:,} are there")
    field = reader.fields.get("tokenizer.ggml.pre")
    return str(field.contents()) if field is not None else ""


def _split_digits(tokenizer: Any) -> None:
    """Restores the digit splitting that transformers' GGUF reader leaves out of byte-level tokenizers."""
    from tokenizers import pre_tokenizers

    backend = tokenizer.backend_tokenizer
    if isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
