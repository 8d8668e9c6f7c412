"""A random two-layer model with a byte tokenizer, and a toy task: enough for real TRL runs in a second."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig

ENDS = [1, *range(40, 70)]  # enough of them that a random model's responses differ in length


def tokenizer() -> PreTrainedTokenizerFast:
    vocab = {"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3}
    for symbol in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocab[symbol] = len(vocab)
    inner = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    names = {"pad_token": "<pad>", "eos_token": "<eos>", "bos_token": "<bos>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=inner, padding_side="left", **names)


def model_folder(path: Path, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=260, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=True,
        pad_token_id=0, eos_token_id=1, bos_token_id=2,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config)
    model.generation_config.eos_token_id = ENDS
    model.save_pretrained(path)
    tokenizer().save_pretrained(path)
    return path


def dataset(rows: int = 64) -> Dataset:
    draw = random.Random(0)
    sums = [(draw.randint(0, 9), draw.randint(0, 9)) for _ in range(rows)]
    return Dataset.from_list([{"prompt": f"{a}+{b}=", "answer": str(a + b)} for a, b in sums])


def reward(completions: list[str], completion_ids: list[list[int]], **columns: Any) -> list[float]:
    """Differs between nearly all responses: the mean token id, scaled."""
    return [sum(ids) / len(ids) / 260 for ids in completion_ids]


def config(output: Path, **changes: Any) -> GRPOConfig:
    values: dict[str, Any] = {
        "output_dir": str(output), "use_cpu": True,
        "bf16": False, "per_device_train_batch_size": 16, "num_generations": 4,
        "max_completion_length": 12, "max_steps": 3, "save_strategy": "no", "logging_steps": 1, "report_to": [],
        "learning_rate": 1e-2, "disable_tqdm": True, "seed": 3,
    }  # fmt: skip
    return GRPOConfig(**{**values, **changes})


def losses(trainer: Any) -> list[float]:
    return [log["loss"] for log in trainer.state.log_history if "loss" in log]


def first(trainer: Any, key: str) -> float:
    return next(log[key] for log in trainer.state.log_history if "loss" in log)
