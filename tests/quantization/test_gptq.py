"""GPTQ: against plain rounding on calibration data, and against the textbook's column-by-column algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from voice.quantization import calibration, gptq, pipeline, rounding  # noqa: E402


def _inputs(tokens: int, width: int) -> Any:
    """Correlated inputs with a few large channels, as a transformer's are."""
    generator = torch.Generator().manual_seed(3)
    mixed = torch.randn(tokens, width, generator=generator) @ torch.randn(width, width, generator=generator)
    mixed[:, :2] *= 10
    return mixed


@pytest.mark.parametrize("width", [16, 130, 300])  # below, just above and far above one block
def test_output_error_is_below_that_of_rounding(width: int) -> None:
    inputs = _inputs(600, width)
    weight = torch.randn(24, width, generator=torch.Generator().manual_seed(4))
    result = gptq.quantize(weight, inputs.T @ inputs)
    plain = rounding.quantize(weight)

    def error(quantized: rounding.Quantized) -> float:
        return float((inputs @ (weight - quantized.dequantized()).T).square().sum())

    assert error(result) < 0.5 * error(plain)
    assert torch.equal(result.scale, plain.scale)
    assert result.weight.dtype == torch.int8
    assert int(result.weight.min()) >= -127


def test_blocks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = _inputs(600, 96)
    weight = torch.randn(8, 96, generator=torch.Generator().manual_seed(5))
    hessian = inputs.T @ inputs
    whole = gptq.quantize(weight, hessian)
    monkeypatch.setattr(gptq, "BLOCK", 7)
    blocked = gptq.quantize(weight, hessian)
    # The sums are taken in another order: a value on the border may fall to the other side.
    assert float((whole.weight != blocked.weight).float().mean()) < 0.01


def test_independent_inputs_leave_nothing_to_compensate() -> None:
    weight = torch.randn(8, 32, generator=torch.Generator().manual_seed(6))
    assert torch.equal(gptq.quantize(weight, torch.eye(32) * 5).weight, rounding.quantize(weight).weight)


def test_inputs_never_seen_are_rounded_plainly() -> None:
    inputs = _inputs(600, 32)
    inputs[:, 5] = 0
    weight = torch.randn(8, 32, generator=torch.Generator().manual_seed(7))
    result = gptq.quantize(weight, inputs.T @ inputs)
    assert torch.equal(result.weight[:, 5], rounding.quantize(weight).weight[:, 5])


def test_too_few_tokens_still_give_weights() -> None:
    inputs = _inputs(4, 64)
    weight = torch.randn(8, 64, generator=torch.Generator().manual_seed(8))
    assert bool(torch.isfinite(gptq.quantize(weight, inputs.T @ inputs).dequantized()).all())


def test_hessians_are_those_of_each_layer(model: Any, prompts: list[Any]) -> None:
    names = pipeline.linear_names(model)
    seen: dict[Any, list[Any]] = {module: [] for module in names}
    handles = [
        module.register_forward_pre_hook(lambda module, args: seen[module].append(args[0].detach()[0]))
        for module in names
    ]
    with torch.inference_mode():
        for prompt in prompts:
            model(prompt, use_cache=False)
        for handle in handles:
            handle.remove()
        found = {
            module: hessian
            for layer in calibration.layer_hessians(model, names, prompts)
            for module, hessian in layer.items()
        }
    assert found.keys() == names.keys()
    for module, parts in seen.items():
        inputs = torch.cat(parts)
        torch.testing.assert_close(found[module], inputs.T @ inputs, rtol=1e-3, atol=1e-2)


def _logit_error(model: Any, recipe: str, prompts: list[Any]) -> float:
    with torch.inference_mode():
        reference = torch.cat([model(prompt).logits for prompt in prompts])
        quantized = pipeline.quantize(model, recipe, lambda: prompts, lambda _: None)
        for module, name in pipeline.linear_names(model).items():
            module.weight.copy_(quantized[name].dequantized())
        return float((torch.cat([model(prompt).logits for prompt in prompts]) - reference).square().mean())


def test_the_whole_model_errs_less_than_with_rounding(make_model: Callable[..., Any], prompts: list[Any]) -> None:
    assert _logit_error(make_model(), "gptq", prompts) < _logit_error(make_model(), "rtn", prompts)
