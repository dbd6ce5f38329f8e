"""What a model does on spoken-style text: the largest activations, and the Hessians that GPTQ needs.

The texts are short questions with short answers, put through the model's own chat template, because that is what the
model will see in use. None of them is a question of `voice bench answers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from voice.errors import ModelError
from voice.quantization.texts import CONVERSATIONS

SYSTEM_PROMPT = "You are a helpful voice assistant. Answer in one short sentence."


def encode(tokenizer: Any, conversations: Sequence[Sequence[str]] = CONVERSATIONS) -> list[Tensor]:
    """Token ids [1, tokens] of each conversation (turns of user and assistant, in turn, from the user on).

    A model without a chat template, or whose template takes no system message, gets the turns without it.
    """
    prompts = []
    for turns in conversations:
        roles = ("user", "assistant")
        messages = [{"role": roles[index % 2], "content": text} for index, text in enumerate(turns)]
        text = _render(tokenizer, messages)
        prompts.append(tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids)
    return prompts


def _render(tokenizer: Any, messages: list[dict[str, str]]) -> str:
    if not getattr(tokenizer, "chat_template", None):
        return "\n".join(message["content"] for message in messages)
    try:
        system = {"role": "system", "content": SYSTEM_PROMPT}
        return str(tokenizer.apply_chat_template([system, *messages], tokenize=False))
    except Exception:  # templates refuse a system role with whatever error their author chose
        return str(tokenizer.apply_chat_template(messages, tokenize=False))


def decoder_layers(model: Any) -> nn.ModuleList:
    """The stack of decoder layers. Raises ModelError where the model has none in the usual place."""
    layers = getattr(model.base_model, "layers", None)
    if not isinstance(layers, nn.ModuleList) or not len(layers):
        raise ModelError(
            f"{type(model).__name__} has no stack of decoder layers that can be calibrated: use recipe rtn"
        )
    return layers


def activation_maxima(model: Any, names: Mapping[nn.Linear, str], prompts: Sequence[Tensor]) -> dict[nn.Module, Tensor]:
    """The largest magnitude of each input channel over all prompts: Linear module -> float32 [in]."""
    maxima: dict[nn.Module, Tensor] = {}

    def observe(module: nn.Module, args: tuple[Any, ...]) -> None:
        inputs = args[0].detach()
        largest = inputs.reshape(-1, inputs.shape[-1]).float().abs().amax(dim=0)
        maxima[module] = torch.maximum(maxima[module], largest) if module in maxima else largest

    handles = [module.register_forward_pre_hook(observe) for module in names]
    try:
        for prompt in prompts:
            model(prompt, use_cache=False)
    finally:
        for handle in handles:
            handle.remove()
    return maxima


def layer_hessians(
    model: Any, names: Mapping[nn.Linear, str], prompts: Sequence[Tensor]
) -> Iterator[dict[nn.Linear, Tensor]]:
    """For one decoder layer after the other, the sum of x xᵀ of each of its Linear modules: float32 [in, in].

    The caller replaces a layer's weights before it asks for the next one: each layer is then calibrated on what the
    quantized layers before it really produce. Only one layer's Hessians are in memory at a time.
    """
    calls = _first_layer_calls(model, prompts)
    for layer in decoder_layers(model):
        hessians: dict[nn.Linear, Tensor] = {}

        def observe(module: Any, args: tuple[Any, ...], hessians: dict[nn.Linear, Tensor] = hessians) -> None:
            inputs = args[0].detach()
            flat = inputs.reshape(-1, inputs.shape[-1]).float()
            if module in hessians:
                hessians[module].addmm_(flat.T, flat)
            else:
                hessians[module] = flat.T @ flat

        handles = [module.register_forward_pre_hook(observe) for module in layer.modules() if module in names]
        for args, kwargs in calls:
            layer(*args, **kwargs)
        for handle in handles:
            handle.remove()
        yield hessians
        for index, (args, kwargs) in enumerate(calls):
            output = layer(*args, **kwargs)
            hidden = output[0] if isinstance(output, tuple) else output
            calls[index] = ((hidden, *args[1:]), kwargs)


class _Reached(Exception):
    """The first decoder layer was called: its arguments are known, the rest of the model need not run."""


def _first_layer_calls(model: Any, prompts: Sequence[Tensor]) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The arguments (hidden states first) with which the model calls its first decoder layer, for each prompt."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def stop(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not args:
            args = (kwargs.pop("hidden_states"),)
        calls.append((args, kwargs))
        raise _Reached

    handle = decoder_layers(model)[0].register_forward_pre_hook(stop, with_kwargs=True)
    try:
        for prompt in prompts:
            try:
                model(prompt, use_cache=False)
            except _Reached:
                continue
    finally:
        handle.remove()
    return calls
