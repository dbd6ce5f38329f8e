"""Plain rounding: scales, range and the half-step bound."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from hypothesis.extra import numpy as arrays  # noqa: E402

from voice.quantization.rounding import channel_scales, quantize, round_to  # noqa: E402


def test_each_output_channel_has_its_own_scale() -> None:
    weight = torch.tensor([[1.27, -0.5, 0.0], [-254.0, 2.0, 100.0], [0.0, 0.0, 0.0]])
    scales = channel_scales(weight)
    assert scales.dtype == torch.float32
    assert scales.shape == (3, 1)
    assert scales[:, 0].tolist() == pytest.approx([0.01, 2.0, 1.0])


def test_exact_levels() -> None:
    weight = torch.tensor([[1.27, -0.5, 0.004], [-254.0, 2.0, 101.0]])
    result = quantize(weight)
    assert result.weight.dtype == torch.int8
    assert result.weight.tolist() == [[127, -50, 0], [-127, 1, 50]]  # 50.5 rounds to even
    assert torch.allclose(result.dequantized(), torch.tensor([[1.27, -0.5, 0.0], [-254.0, 2.0, 100.0]]))


def test_levels_beyond_the_scale_are_clamped() -> None:
    assert round_to(torch.tensor([[9.0, -9.0]]), torch.tensor([[0.01]])).tolist() == [[127, -127]]


SHAPES = arrays.array_shapes(min_dims=2, max_dims=2, max_side=8)
FLOATS = st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False)  # torch may flush subnormals


@given(arrays.arrays("float32", SHAPES, elements=FLOATS))
def test_no_weight_moves_by_more_than_half_a_step(values: object) -> None:
    weight = torch.tensor(values)
    result = quantize(weight)
    error = (weight.double() - result.weight.double() * result.scale.double()).abs()
    bound = 0.5 * result.scale.double()
    tiny = result.scale == 1.0  # channels of (almost) zeros
    assert bool(((error <= bound * (1 + 1e-4)) | tiny).all())
    assert int(result.weight.min()) >= -127
    assert bool((result.scale > 0).all())
