"""The steps of one build: load, calibrate, smooth, quantize, save."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from voice.errors import ModelError
from voice.quantization import calibration, gguf, gptq, layout, rounding, smooth
from voice.quantization.rounding import Quantized

logger = logging.getLogger(__name__)

FLOAT32_BYTES = 3 * 1024**3
"""GGUF files up to this size are dequantized to float32, so that a weight is rounded once and not twice."""


def run(source: Path, target: Path, recipe: str, report: Callable[[str], None]) -> None:
    """`voice.quantization.build`, once its arguments are checked."""
    with _quiet_transformers(), torch.inference_mode():
        report(f"loading {source.name}")
        model, tokenizer = _load(source)
        quantized: dict[str, Quantized] = {}
        if recipe != "bf16":
            quantized = quantize(model, recipe, lambda: calibration.encode(tokenizer), report)
        report(f"saving {target.name}")
        layout.save(target, model, tokenizer, source, quantized)


def quantize(
    model: Any, recipe: str, prompts: Callable[[], list[torch.Tensor]], report: Callable[[str], None]
) -> dict[str, Quantized]:
    """Finds INT8 weights for every Linear module but the output head: module name -> weights and scales.

    `prompts` gives the calibration prompts as token ids [1, tokens], and is called by the recipes that need them.
    Smoothing changes the model's float weights in place (not its function); GPTQ leaves the dequantized INT8 weights.
    """
    names = linear_names(model)
    steps = recipe.split("-")
    quantized: dict[str, Quantized] = {}
    if "smooth" in steps:
        if model.config.model_type not in smooth.FAMILIES:
            raise ModelError(
                f"smoothing knows {', '.join(smooth.FAMILIES)} models, this is {model.config.model_type}: "
                "take the recipe rtn or gptq"
            )
        report("measuring activations")
        maxima = calibration.activation_maxima(model, names, prompts())
        smooth.smooth_layers(calibration.decoder_layers(model), maxima)
    if "gptq" in steps:
        layers = calibration.decoder_layers(model)
        report(f"compensating rounding errors in {len(layers)} layers")
        for hessians in calibration.layer_hessians(model, names, prompts()):
            for module, hessian in hessians.items():
                result = gptq.quantize(module.weight, hessian)
                quantized[names[module]] = result
                module.weight.copy_(result.dequantized())
    report("rounding to INT8")
    for module, name in names.items():
        if name not in quantized:
            quantized[name] = rounding.quantize(module.weight)
    return quantized


def linear_names(model: Any) -> dict[nn.Linear, str]:
    """The Linear modules to quantize, with their names: all but the output head, which shares the embeddings."""
    head = model.get_output_embeddings()
    names = {
        module: name for name, module in model.named_modules() if isinstance(module, nn.Linear) and module is not head
    }
    if not names:
        raise ModelError("the model has no Linear modules to quantize: take the recipe bf16")
    return names


def _load(source: Path) -> tuple[Any, Any]:
    if gguf.is_gguf(source):
        small = source.stat().st_size <= FLOAT32_BYTES
        return gguf.load(source, torch.float32 if small else torch.bfloat16)
    if not source.exists():
        raise ModelError(f"{source} does not exist: name a GGUF file or a Hugging Face model directory")
    if not source.is_dir():
        raise ModelError(f"{source} is neither a GGUF file nor a directory: name a GGUF file or a model directory")
    try:
        config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{source} has no readable config.json: name a complete Hugging Face directory") from error
    if config.get("quantization_config"):
        raise ModelError(f"{source} is quantized already: start from the unquantized model")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        model = AutoModelForCausalLM.from_pretrained(source, dtype="auto", local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True)
    except Exception as error:  # unknown architectures, missing shards, broken files: each has its own type
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ModelError(f"{source} cannot be loaded, check that it is complete ({reason[:160]})") from error
    return model, tokenizer


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Keeps transformers' progress bars and warnings off the terminal: `report` says what is going on."""
    from transformers.utils import logging as transformers_logging

    before = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(before)
        if bars:
            transformers_logging.enable_progress_bar()
