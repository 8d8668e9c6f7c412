"""A tiny GGUF file, written with the gguf package, and SmolLM2 as imported."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from tokenizers import pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from upside.models.importing import import_model

TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}>{% endif %}"
)
SPECIAL = ["<end>", "<start>", "<pad>"]
TOKENS = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), "Ġt"]


def tiny_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(TOKENS), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=False,
        )
    )  # fmt: skip


def _rotary_order(weight: np.ndarray, heads: int) -> np.ndarray:
    """GGUF keeps the rotary halves of each head interleaved: row h*d + 2*i + j is row h*d + j*d/2 + i here."""
    size = weight.shape[0] // heads
    rows = [h * size + j * size // 2 + i for h in range(heads) for i in range(size // 2) for j in range(2)]
    return weight[rows]


NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def write_gguf(path: Path, model: LlamaForCausalLM, **changes: Any) -> Path:
    """The model as a float32 GGUF file. changes: architecture, eos, template."""
    writer = gguf.GGUFWriter(path, changes.get("architecture", "llama"))
    writer.add_license("mit")
    writer.add_context_length(128)
    writer.add_embedding_length(32)
    writer.add_block_count(2)
    writer.add_feed_forward_length(48)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(model.config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(TOKENS) - len(SPECIAL)))
    writer.add_token_merges(["Ġ t"])
    writer.add_eos_token_id(changes.get("eos", 0))
    writer.add_bos_token_id(1)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(changes.get("template", TEMPLATE))
    weights = {name: value.detach().float().numpy() for name, value in model.state_dict().items()}
    writer.add_tensor("token_embd.weight", weights["model.embed_tokens.weight"])
    writer.add_tensor("output.weight", weights["lm_head.weight"])
    writer.add_tensor("output_norm.weight", weights["model.norm.weight"])
    for layer in range(2):
        for ours, theirs in NAMES.items():
            value = weights[f"model.layers.{layer}.{ours}.weight"]
            heads = {"attn_q": 4, "attn_k": 2}.get(theirs)
            writer.add_tensor(f"blk.{layer}.{theirs}.weight", _rotary_order(value, heads) if heads else value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def make_gguf(tmp_path: Path) -> Callable[..., Path]:
    """(model or None for a fresh one, changes) -> path of a GGUF file."""

    def make(model: LlamaForCausalLM | None = None, **changes: Any) -> Path:
        return write_gguf(tmp_path / "tiny.gguf", model or tiny_llama(), **changes)

    return make


@pytest.fixture
def llama() -> LlamaForCausalLM:
    return tiny_llama()


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """SmolLM2-135M-Instruct as `upside model import smollm2` writes it (0.5 GB, removed at the end)."""
    folder = tmp_path_factory.mktemp("smollm2") / "model"
    import_model("smollm2", folder)
    yield folder
    shutil.rmtree(folder)
