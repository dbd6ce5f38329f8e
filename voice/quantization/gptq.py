"""GPTQ: INT8 weights whose rounding errors compensate one another on calibration data.

Frantar, Ashkboos, Hoefler, Alistarh: "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
Transformers", ICLR 2023. Columns are rounded one after another; the error that a column leaves in the layer's output is
spread over the columns not yet rounded, weighted by the inverse Hessian of the squared output error. The Hessian is the
sum of x xᵀ over the calibration inputs (the paper's factor 2 cancels out).
"""

from __future__ import annotations

import torch
from torch import Tensor

from voice.quantization.rounding import Quantized, channel_scales, round_to

BLOCK = 128
"""Columns rounded before the rest of the matrix is brought up to date (the paper's lazy batch)."""

DAMPING = 0.01
"""Added to the Hessian's diagonal, as a share of its mean: calibration sees far fewer tokens than use."""


def quantize(weight: Tensor, hessian: Tensor) -> Quantized:
    """Rounds `weight` [out, in] to INT8 with the least squared output error on the calibration inputs.

    `hessian` is float32 [in, in]: the sum of x xᵀ over those inputs. Scales are those of plain rounding, so the result
    costs nothing more at run time. Columns with the largest inputs go first (the authors' "act order").
    """
    scale = channel_scales(weight)
    order = torch.argsort(torch.diagonal(hessian), descending=True)
    work = weight.float()[:, order].clone()
    factor = _inverse_factor(hessian.float()[order][:, order])
    levels = torch.empty_like(work, dtype=torch.int8)
    columns = work.shape[1]
    for start in range(0, columns, BLOCK):
        end = min(start + BLOCK, columns)
        errors = torch.empty_like(work[:, start:end])
        for column in range(start, end):
            levels[:, column] = round_to(work[:, column : column + 1], scale)[:, 0]
            rounded = levels[:, column].float() * scale[:, 0]
            error = (work[:, column] - rounded) / factor[column, column]
            work[:, column:end] -= error[:, None] * factor[column, column:end]
            errors[:, column - start] = error
        work[:, end:] -= errors @ factor[start:end, end:]
    return Quantized(levels[:, torch.argsort(order)].contiguous(), scale)


def _inverse_factor(hessian: Tensor) -> Tensor:
    """The upper Cholesky factor of the inverse Hessian [in, in]. Inputs never seen are left to plain rounding."""
    hessian = hessian.clone()
    diagonal = torch.diagonal(hessian)
    diagonal[diagonal <= 0] = 1.0
    damping = DAMPING * diagonal.mean()
    while True:
        diagonal += damping
        lower, failed = torch.linalg.cholesky_ex(hessian)
        if not failed:
            upper, failed = torch.linalg.cholesky_ex(torch.cholesky_inverse(lower), upper=True)
            if not failed:
                return upper
        damping *= 10
