"""Plain rounding ("rtn", round to nearest): symmetric INT8 weights with one scale per output channel."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

QMAX = 127
"""Largest INT8 level used. -128 is left out, so that the levels are symmetric and need no zero point."""


@dataclass(frozen=True, slots=True)
class Quantized:
    """An INT8 weight matrix; its value is ``weight * scale``."""

    weight: Tensor
    """int8 [out, in]"""

    scale: Tensor
    """float32 [out, 1], above zero"""

    def dequantized(self) -> Tensor:
        """The weights as they act: float32 [out, in]."""
        return self.weight.float() * self.scale


def channel_scales(weight: Tensor) -> Tensor:
    """The step of each output channel: its largest magnitude over 127. [out, in] -> float32 [out, 1].

    A channel of zeros gets 1: any step represents it exactly.
    """
    largest = weight.float().abs().amax(dim=1, keepdim=True)
    scales = largest / QMAX
    # Magnitudes near the smallest float would give a step of zero and a division by it.
    return torch.where(scales < torch.finfo(torch.float32).tiny, torch.ones_like(scales), scales)


def round_to(weight: Tensor, scale: Tensor) -> Tensor:
    """The nearest INT8 levels: float [out, n] and steps [out, 1] -> int8 [out, n]."""
    return torch.clamp(torch.round(weight.float() / scale), -QMAX, QMAX).to(torch.int8)


def quantize(weight: Tensor) -> Quantized:
    """Rounds a weight matrix [out, in] to INT8. No weight moves by more than half its channel's scale."""
    scale = channel_scales(weight)
    return Quantized(round_to(weight, scale), scale)
