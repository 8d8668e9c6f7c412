"""A byte-level tokenizer with a chat template and an untrained Llama that reads it."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from upside.evaluation import Row
from upside.tasks import load_task

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def byte_tokenizer(template: str | None = TEMPLATE) -> PreTrainedTokenizerFast:
    vocab = {"<pad>": 0, "<eos>": 1, "<bos>": 2}
    for symbol in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocab[symbol] = len(vocab)
    bpe = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bpe.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, pad_token="<pad>", eos_token="<eos>", bos_token="<bos>")
    tokenizer.chat_template = template
    return tokenizer


def llama(seed: int = 0) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=259,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=2,
        eos_token_id=1,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="session")
def tokenizer_with() -> Callable[[str | None], PreTrainedTokenizerFast]:
    return byte_tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    return byte_tokenizer()


@pytest.fixture(scope="session")
def model() -> LlamaForCausalLM:
    return llama()


@pytest.fixture(scope="session")
def task():
    return load_task("arithmetic")


@pytest.fixture(scope="session")
def folders(tmp_path_factory, tokenizer) -> tuple[Path, Path]:
    """Two saved models of one shape and different weights."""
    found = []
    for seed in (0, 1):
        folder = tmp_path_factory.mktemp("model") / str(seed)
        llama(seed).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        found.append(folder)
    return found[0], found[1]


@pytest.fixture(scope="session")
def row() -> Callable[..., Row]:
    def make(problem: str, sample: int, correct: bool | None, **fields) -> Row:
        outcome = {True: "correct", False: "wrong", None: None}[correct]
        values = {
            "level": 1, "family": "f", "prompt": "p", "gold": "1", "response": "r", "tokens": 4, "truncated": False,
            "score": None if correct is None else float(correct), "outcome": outcome, "final": "1", "style": None,
        }  # fmt: skip
        return Row(problem=problem, sample=sample, correct=correct, **{**values, **fields})

    return make
