"""A tiny random Llama: two layers, grouped-query attention, tied embeddings, and a tokenizer of single bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


def _make_model(**changes: Any) -> Any:
    """A float32 LlamaForCausalLM with random weights (the same ones each time)."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    shape = {
        "vocab_size": 300, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2, "head_dim": 12,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "tie_word_embeddings": True,
        "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 257,
    }  # fmt: skip
    model = LlamaForCausalLM(LlamaConfig(**(shape | changes))).eval()
    with torch.no_grad():
        for layer in model.model.layers:  # norms as trained models have them: not all ones, a few channels large
            for norm in (layer.input_layernorm, layer.post_attention_layernorm):
                norm.weight.uniform_(0.3, 1.5)
                norm.weight[:3] = 12.0
    return model


def _make_tokenizer() -> Any:
    """Bytes as tokens, <s> and </s> beside them, and a chat template that ends each message with </s>."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}</s>{% endfor %}"
    return tokenizer


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Any]:
    """Makes tiny models; keyword arguments change their configuration."""
    return _make_model


@pytest.fixture(scope="session")
def make_tokenizer() -> Callable[[], Any]:
    """Makes the tiny models' tokenizer."""
    return _make_tokenizer


@pytest.fixture
def model() -> Any:
    """A fresh tiny model."""
    return _make_model()


@pytest.fixture(scope="session")
def prompts() -> list[Any]:
    """Six calibration prompts of 40 random tokens."""
    generator = torch.Generator().manual_seed(2)
    return [torch.randint(0, 256, (1, 40), generator=generator) for _ in range(6)]


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model as a Hugging Face directory in bfloat16."""
    path = tmp_path_factory.mktemp("tiny")
    model = _make_model().to(torch.bfloat16)
    model.generation_config.eos_token_id = [257, 258]
    model.save_pretrained(path)
    _make_tokenizer().save_pretrained(path)
    return path
