"""The directory that vLLM and transformers load: Hugging Face's layout, INT8 in compressed-tensors' format."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from voice.quantization.rounding import Quantized

COPIED = (
    "tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt", "*.model",
    "chat_template*", "generation_config.json", "LICENSE*",
)  # fmt: skip
"""Files of a source directory that are copied as they are."""

DROPPED_KEYS = ("_name_or_path", "_model_name_or_path", "_from_model_config", "transformers_version", "dtype")
"""Keys of transformers' configs that name the builder's machine, or that are set anew."""


def quantization_config(ignored: list[str]) -> dict[str, Any]:
    """compressed-tensors' description of W8A8: INT8 weights per channel, INT8 activations per token while running.

    `ignored` names the Linear modules that stay in bfloat16.
    """
    weights = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "dynamic": False}
    activations = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations, "output_activations": None}
    return {
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "quantization_status": "compressed",
        "config_groups": {"group_0": group},
        "ignore": ignored,
        "kv_cache_scheme": None,
    }


def tensors(model: nn.Module, quantized: Mapping[str, Quantized]) -> dict[str, Tensor]:
    """What model.safetensors holds: name -> tensor.

    A quantized Linear NAME becomes NAME.weight (int8 [out, in]) and NAME.weight_scale (float32 [out, 1]); every other
    float tensor becomes bfloat16. Of tied tensors only the first (the embedding) is kept.
    """
    kept: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict().items():
        module, _, kind = name.rpartition(".")
        if kind == "weight" and module in quantized:
            kept[name] = quantized[module].weight.contiguous()
            kept[f"{module}.weight_scale"] = quantized[module].scale.contiguous()
        elif tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            kept[name] = (tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor).contiguous()
    return kept


def save(target: Path, model: Any, tokenizer: Any, source: Path, quantized: Mapping[str, Quantized]) -> None:
    """Writes the whole directory. An empty `quantized` gives a plain bfloat16 model.

    Tokenizer, chat template and generation settings are the source directory's own files, or, for a GGUF source, what
    its metadata says. config.json comes last.
    """
    target.mkdir(parents=True, exist_ok=True)
    save_file(tensors(model, quantized), target / "model.safetensors", metadata={"format": "pt"})
    (target / "model.safetensors").chmod(0o644)
    if source.is_dir():
        for pattern in COPIED:
            for path in source.glob(pattern):
                shutil.copyfile(path, target / path.name)
    else:
        tokenizer.model_max_length = model.config.max_position_embeddings
        tokenizer.save_pretrained(target)
    if not (target / "generation_config.json").exists():
        _write_json(target / "generation_config.json", _clean(model.generation_config.to_dict()))
    config = _clean(model.config.to_dict()) | {"architectures": [type(model).__name__], "torch_dtype": "bfloat16"}
    if quantized:
        linears = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
        config["quantization_config"] = quantization_config([name for name in linears if name not in quantized])
    _write_json(target / "config.json", config)


def _clean(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in DROPPED_KEYS and value is not None}


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
