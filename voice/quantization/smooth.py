"""SmoothQuant: moving activation outliers into the weights, where INT8 has room for them.

Xiao, Lin, Seznec, Wu, Demouth, Han: "SmoothQuant: Accurate and Efficient Post-Training Quantization for Large
Language Models", ICML 2023. An input channel that is much larger than the others takes the whole INT8 range of its
token. Dividing that channel by a factor and multiplying the matching weight columns by it leaves the product as it was.
The division costs nothing at run time: it is folded into whatever produced the channel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

STRENGTH = 0.5
"""How much of the outliers moves (the paper's alpha): 0 leaves activations as they are, 1 flattens them."""

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
"""Values of config.model_type whose decoder layers are known to be norm -> q, k, v and norm -> gate, up -> down.

Others reuse the same attribute names with other meanings (Gemma norms after attention, and multiplies by 1 + weight).
"""


@dataclass(frozen=True, slots=True)
class Junction:
    """A place where a channel's factor can move: out of `producer`, into the columns of every consumer."""

    producer: nn.Module
    """An RMSNorm (weight [in]) or a Linear (weight [in, ...]) whose output channels are the consumers' inputs."""

    consumers: tuple[nn.Linear, ...]
    """Everything that reads the producer's output."""


def junctions(layer: Any) -> Iterator[Junction]:
    """The junctions of one decoder layer of a family named in `FAMILIES`."""
    attention, mlp = layer.self_attn, layer.mlp
    yield Junction(layer.input_layernorm, (attention.q_proj, attention.k_proj, attention.v_proj))
    yield Junction(layer.post_attention_layernorm, (mlp.gate_proj, mlp.up_proj))
    # act(gate) * up is linear in up, and a row of `up` has its own INT8 scale: here the move is free.
    yield Junction(mlp.up_proj, (mlp.down_proj,))


def factors(activation_max: Tensor, weight_max: Tensor, strength: float = STRENGTH) -> Tensor:
    """By how much to divide each input channel: a^strength / w^(1-strength), equation 4 of the paper.

    Both arguments are [in]: the largest magnitude seen in each channel, and in the matching columns of the weights.
    Channels that were never active, or have no weight, keep a factor of 1.
    """
    activation_max, weight_max = activation_max.float(), weight_max.float()
    moved = activation_max.pow(strength) / weight_max.clamp(min=1e-5).pow(1 - strength)
    quiet = (activation_max <= 0) | (weight_max <= 0)
    return torch.where(quiet, torch.ones_like(moved), moved.clamp(min=1e-5))


def smooth(junction: Junction, activation_max: Tensor, strength: float = STRENGTH) -> None:
    """Moves the factors of one junction, in place. The model's function does not change, beyond float rounding.

    `activation_max` is [in]: the largest magnitude that each of the consumers' input channels reached in calibration.
    """
    with torch.no_grad():
        _smooth(junction, activation_max, strength)


def _smooth(junction: Junction, activation_max: Tensor, strength: float) -> None:
    weight_max = torch.stack([consumer.weight.abs().amax(dim=0).float() for consumer in junction.consumers]).amax(dim=0)
    factor = factors(activation_max, weight_max, strength)
    producer = junction.producer
    _scale_rows(producer.weight, 1 / factor)
    if getattr(producer, "bias", None) is not None:
        _scale_rows(producer.bias, 1 / factor)
    for consumer in junction.consumers:
        consumer.weight.copy_((consumer.weight.float() * factor).to(consumer.weight.dtype))


def smooth_layers(layers: nn.ModuleList, maxima: Mapping[nn.Module, Tensor]) -> None:
    """Smooths every junction of the decoder layers; `maxima` holds [in] for each of their Linear modules."""
    for layer in layers:
        for junction in junctions(layer):
            smooth(junction, maxima[junction.consumers[0]])


def _scale_rows(parameter: Any, factor: Tensor) -> None:
    shape = (-1, *([1] * (parameter.dim() - 1)))
    parameter.copy_((parameter.float() * factor.reshape(shape)).to(parameter.dtype))
