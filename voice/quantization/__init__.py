"""Building an INT8 language model: from a GGUF file or a Hugging Face directory to a directory that vLLM runs as W8A8.

Every weight matrix but the embeddings and the output head becomes INT8 with one scale per output channel, and vLLM
quantizes the activations itself, per token, while it runs. The recipes differ in how the INT8 weights are found.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from voice.errors import ModelError

RECIPES = {
    "bf16": "no quantization: weights dequantized (or copied) to bfloat16",
    "rtn": "plain rounding to the nearest step, one scale per output channel",
    "smooth": "SmoothQuant: activation outliers moved into the weights, then plain rounding",
    "gptq": "GPTQ: each column's rounding error compensated in the columns after it, by calibration text",
    "smooth-gptq": "SmoothQuant, then GPTQ in place of plain rounding",
}
"""What each recipe does, by name."""


def build(source: Path, target: Path, recipe: str, report: Callable[[str], None]) -> None:
    """Builds a complete Hugging Face directory in `target` (weights, config, tokenizer, chat template).

    `source` is a GGUF file or a Hugging Face directory with unquantized weights. `target` must be missing or empty; its
    config.json is written last, so a build that was cut off never looks like a model. `report` gets one short line per
    step, for people. On two CPU cores, 135 million parameters take about 15 s (rtn), 25 s (smooth) or 60 s (gptq), and
    1.5 GB of memory: the weights once as they were loaded (float32 from a GGUF file), once in INT8.

    Raises ModelError for an unknown recipe, a source that is missing, broken or already quantized, or a model whose
    structure is not supported.
    """
    if recipe not in RECIPES:
        raise ModelError(f"unknown recipe {recipe!r}: choose one of {', '.join(RECIPES)}")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ModelError(f"{target} is not an empty directory: name another one, or remove it first")
    from voice.quantization.pipeline import run  # torch and transformers take seconds to import

    run(source, target, recipe, report)
