"""`voice.quantization.build`: what lands in the directory, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from voice.errors import ModelError  # noqa: E402
from voice.quantization import RECIPES, build, calibration, gguf  # noqa: E402
from voice.quantization.texts import CONVERSATIONS  # noqa: E402

PROJECTIONS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
               "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")  # fmt: skip


@pytest.fixture
def few_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calibrates on four conversations: the tiny tokenizer makes a token of each byte."""
    monkeypatch.setattr(calibration.encode, "__defaults__", (CONVERSATIONS[:4],))


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from safetensors.torch import load_file

    return load_file(path / "model.safetensors"), json.loads((path / "config.json").read_text())


@pytest.mark.usefixtures("few_texts")
@pytest.mark.parametrize("recipe", [name for name in RECIPES if name != "bf16"])
def test_int8_directory(source: Path, tmp_path: Path, recipe: str) -> None:
    target = tmp_path / "out"
    lines: list[str] = []
    build(source, target, recipe, lines.append)
    tensors, config = _read(target)
    expected = {"model.embed_tokens.weight", "model.norm.weight"}
    for layer in (f"model.layers.{index}" for index in range(2)):
        expected |= {f"{layer}.input_layernorm.weight", f"{layer}.post_attention_layernorm.weight"}
        for name in PROJECTIONS:
            expected |= {f"{layer}.{name}.weight", f"{layer}.{name}.weight_scale"}
            weight, scale = tensors[f"{layer}.{name}.weight"], tensors[f"{layer}.{name}.weight_scale"]
            assert (weight.dtype, scale.dtype, scale.shape) == (torch.int8, torch.float32, (weight.shape[0], 1))
    assert set(tensors) == expected  # the tied head is not there twice
    assert {tensor.dtype for name, tensor in tensors.items() if "norm" in name or "embed" in name} == {torch.bfloat16}
    quantization = config["quantization_config"]
    assert (quantization["quant_method"], quantization["format"]) == ("compressed-tensors", "int-quantized")
    assert quantization["ignore"] == ["lm_head"]
    group = quantization["config_groups"]["group_0"]
    assert group["targets"] == ["Linear"]
    assert (group["weights"]["strategy"], group["weights"]["num_bits"], group["weights"]["dynamic"]) == (
        "channel",
        8,
        False,
    )
    activations = group["input_activations"]
    assert (activations["strategy"], activations["num_bits"], activations["dynamic"]) == ("token", 8, True)
    assert lines[0].startswith("loading")
    assert all("\n" not in line for line in lines)


def test_rounded_weights_are_those_of_the_source(source: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    build(source, tmp_path / "out", "rtn", lambda _: None)
    original, (tensors, _) = load_file(source / "model.safetensors"), _read(tmp_path / "out")
    name = "model.layers.0.mlp.down_proj.weight"
    error = (original[name].float() - tensors[name].float() * tensors[f"{name}_scale"]).abs()
    assert bool((error <= tensors[f"{name}_scale"] * 0.5001).all())
    norm = "model.layers.0.input_layernorm.weight"
    assert torch.equal(original[norm], tensors[norm])


def test_bf16_is_the_source_itself(source: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    build(source, tmp_path / "out", "bf16", lambda _: None)
    original, (tensors, config) = load_file(source / "model.safetensors"), _read(tmp_path / "out")
    assert tensors.keys() == original.keys()
    assert all(torch.equal(original[name], tensors[name]) for name in original)
    assert "quantization_config" not in config
    assert config["architectures"] == ["LlamaForCausalLM"]


def test_tokenizer_template_and_generation_settings_survive(source: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    target = tmp_path / "out"
    build(source, target, "rtn", lambda _: None)
    assert json.loads((target / "generation_config.json").read_text())["eos_token_id"] == [257, 258]
    before, after = AutoTokenizer.from_pretrained(source), AutoTokenizer.from_pretrained(target)
    assert after.chat_template == before.chat_template
    assert after("Hello, 12").input_ids == before("Hello, 12").input_ids
    text = (target / "config.json").read_text() + (target / "generation_config.json").read_text()
    assert str(tmp_path) not in text
    assert str(source) not in text


def test_untied_head_stays_bf16(
    make_model: Callable[..., Any], make_tokenizer: Callable[[], Any], tmp_path: Path
) -> None:
    make_model(tie_word_embeddings=False).save_pretrained(tmp_path / "in")
    make_tokenizer().save_pretrained(tmp_path / "in")
    build(tmp_path / "in", tmp_path / "out", "rtn", lambda _: None)
    tensors, _ = _read(tmp_path / "out")
    assert tensors["lm_head.weight"].dtype == torch.bfloat16
    assert tensors["model.embed_tokens.weight"].dtype == torch.bfloat16


def _refusal(source: Path, target: Path, recipe: str = "rtn") -> str:
    with pytest.raises(ModelError) as caught:
        build(source, target, recipe, lambda _: None)
    message = str(caught.value)
    assert "\n" not in message
    assert not (target / "config.json").exists()
    return message


def test_unknown_recipe(source: Path, tmp_path: Path) -> None:
    assert _refusal(source, tmp_path / "out", "int3").startswith("unknown recipe 'int3': choose one of bf16, rtn")


def test_target_must_be_empty(source: Path, tmp_path: Path) -> None:
    (tmp_path / "something").write_text("x")
    assert "not an empty directory" in _refusal(source, tmp_path)


def test_missing_sources(tmp_path: Path) -> None:
    assert "does not exist" in _refusal(tmp_path / "none", tmp_path / "out")
    (tmp_path / "text.bin").write_text("hello")
    assert "neither a GGUF file nor a directory" in _refusal(tmp_path / "text.bin", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    assert "no readable config.json" in _refusal(tmp_path / "empty", tmp_path / "out")


def test_quantized_source(source: Path, tmp_path: Path) -> None:
    build(source, tmp_path / "out", "rtn", lambda _: None)
    assert "quantized already" in _refusal(tmp_path / "out", tmp_path / "again")


def test_directory_without_weights(source: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "config.json").write_text((source / "config.json").read_text())
    assert "cannot be loaded" in _refusal(tmp_path / "in", tmp_path / "out")


def test_smoothing_refuses_families_it_does_not_know(make_tokenizer: Callable[[], Any], tmp_path: Path) -> None:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    config = Gemma2Config(
        vocab_size=300, hidden_size=48, intermediate_size=80, num_hidden_layers=1, head_dim=12, num_attention_heads=4,
        num_key_value_heads=2,
    )  # fmt: skip
    Gemma2ForCausalLM(config).save_pretrained(tmp_path / "in")
    make_tokenizer().save_pretrained(tmp_path / "in")
    assert "take the recipe rtn or gptq" in _refusal(tmp_path / "in", tmp_path / "out", "smooth")


def _write_gguf(path: Path) -> None:
    """A llama GGUF of one layer with a byte-level tokenizer that splits digits, as llama.cpp writes them."""
    import numpy as np
    from gguf import GGMLQuantizationType, GGUFWriter
    from tokenizers import pre_tokenizers

    writer = GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_dimension_count(8)
    writer.add_layer_norm_rms_eps(1e-5)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *alphabet, "12"]
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (len(tokens) - 3))
    writer.add_token_merges(["1 2"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}")
    random = np.random.default_rng(0)

    def add(name: str, *shape: int, quantized: bool = True) -> None:
        from gguf.quants import quantize

        values = random.normal(size=shape).astype(np.float32)
        if quantized:
            kind = GGMLQuantizationType.Q8_0
            writer.add_tensor(name, quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, values)

    add("token_embd.weight", len(tokens), 32)
    add("output_norm.weight", 32, quantized=False)
    add("blk.0.attn_norm.weight", 32, quantized=False)
    add("blk.0.ffn_norm.weight", 32, quantized=False)
    for name, rows, columns in (
        ("attn_q", 32, 32), ("attn_k", 16, 32), ("attn_v", 16, 32), ("attn_output", 32, 32),
        ("ffn_gate", 64, 32), ("ffn_up", 64, 32), ("ffn_down", 32, 64),
    ):  # fmt: skip
        add(f"blk.0.{name}.weight", rows, columns)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_gguf_becomes_a_complete_directory(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    from transformers import AutoTokenizer

    _write_gguf(tmp_path / "tiny.gguf")
    build(tmp_path / "tiny.gguf", tmp_path / "out", "rtn", lambda _: None)
    tensors, config = _read(tmp_path / "out")
    assert tensors["model.layers.0.self_attn.q_proj.weight"].dtype == torch.int8
    assert config["tie_word_embeddings"] is True
    assert config["eos_token_id"] == 2
    assert json.loads((tmp_path / "out" / "generation_config.json").read_text())["eos_token_id"] == 2
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer.eos_token == "<|im_end|>"
    assert (
        tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False) == "<|im_start|>a<|im_end|>"
    )
    assert tokenizer.tokenize("12<|im_end|>") == ["1", "2", "<|im_end|>"]
    assert tokenizer.model_max_length == 128


@pytest.mark.parametrize("damage", ["cut tensors", "cut header", "no magic", "empty"])
def test_broken_gguf_is_refused_in_one_line(tmp_path: Path, damage: str) -> None:
    pytest.importorskip("accelerate")
    path = tmp_path / "broken.gguf"
    _write_gguf(path)
    data = path.read_bytes()
    path.write_bytes(
        {"cut tensors": data[:-5000], "cut header": data[:200], "no magic": b"GGML" + data[4:], "empty": b""}[damage]
    )
    assert gguf.is_gguf(path)
    message = _refusal(path, tmp_path / "out")
    assert "is not a complete GGUF language model, fetch it again" in message
