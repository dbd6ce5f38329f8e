"""SmoothQuant: the factors, and that the model's function stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from voice.quantization import calibration, pipeline, smooth  # noqa: E402


def test_factors_follow_equation_4() -> None:
    activations = torch.tensor([16.0, 1.0, 0.0, 4.0])
    weights = torch.tensor([4.0, 0.25, 2.0, 0.0])
    assert smooth.factors(activations, weights, 0.5).tolist() == pytest.approx([2.0, 2.0, 1.0, 1.0])
    assert smooth.factors(activations, weights, 1.0).tolist() == pytest.approx([16.0, 1.0, 1.0, 1.0])


def _smooth(model: Any, prompts: list[Any]) -> dict[Any, Any]:
    with torch.inference_mode():
        maxima = calibration.activation_maxima(model, pipeline.linear_names(model), prompts)
        smooth.smooth_layers(calibration.decoder_layers(model), maxima)
        return maxima


@pytest.mark.parametrize("changes", [{}, {"attention_bias": True, "mlp_bias": True}, {"tie_word_embeddings": False}])
def test_the_float_function_is_unchanged(
    make_model: Callable[..., Any], changes: dict[str, Any], prompts: list[Any]
) -> None:
    model = make_model(**changes)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1 and float(parameter.detach().abs().max()) == 0.0:
                parameter.uniform_(-0.5, 0.5)  # biases start as zeros
        before = [model(prompt).logits for prompt in prompts]
        weights = model.model.layers[0].mlp.gate_proj.weight.clone()
    _smooth(model, prompts)
    with torch.no_grad():
        after = [model(prompt).logits for prompt in prompts]
    assert not torch.equal(weights, model.model.layers[0].mlp.gate_proj.weight)
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_outliers_shrink(model: Any, prompts: list[Any]) -> None:
    projection = model.model.layers[0].self_attn.q_proj
    before = _smooth(model, prompts)[projection]
    with torch.inference_mode():
        after = calibration.activation_maxima(model, pipeline.linear_names(model), prompts)[projection]
    assert float(before.max() / before.median()) > 2 * float(after.max() / after.median())


def test_maxima_are_those_of_the_inputs(model: Any, prompts: list[Any]) -> None:
    seen: list[Any] = []
    projection = model.model.layers[1].self_attn.k_proj
    handle = projection.register_forward_pre_hook(lambda _, args: seen.append(args[0].detach()))
    with torch.no_grad():
        maxima = calibration.activation_maxima(model, pipeline.linear_names(model), prompts)
    handle.remove()
    expected = torch.cat(seen, dim=1).abs().amax(dim=(0, 1))
    torch.testing.assert_close(maxima[projection], expected)
