"""Which backend answers. (What they draw: test_tokens.py.)"""

import copy
import importlib.machinery
import importlib.util

import pytest
import torch

from upside.evaluation import evaluate
from upside.evaluation.backends import choose, in_process


@pytest.mark.parametrize(
    ("gpu", "installed", "name", "why"),
    [
        (False, False, "upside", "auto: there is no GPU"),
        (False, True, "upside", "auto: there is no GPU"),
        (True, False, "upside", "auto: vllm is not installed"),
        (True, True, "vllm", "auto: vllm is installed"),
    ],
)
def test_auto(monkeypatch, gpu, installed, name, why):
    spec = importlib.machinery.ModuleSpec("vllm", None) if installed else None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: spec)
    found = choose("auto")
    assert (found.name, found.why) == (name, why)


def test_options_are_for_vllm(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: importlib.machinery.ModuleSpec("vllm", None))
    found = choose("vllm:gpu_memory_utilization=0.5,max_model_len=4096")
    assert found.options == {"gpu_memory_utilization": 0.5, "max_model_len": 4096}
    assert str(found) == "vllm:gpu_memory_utilization=0.5,max_model_len=4096"
    with pytest.raises(ValueError, match="backend upside takes no options, got dtype; only vllm does"):
        choose("upside:dtype=float16")


def test_refused(monkeypatch, model, tokenizer):
    with pytest.raises(ValueError, match=r"one of auto, upside, transformers, vllm, got 'vlm'; did you mean 'vllm'\?"):
        choose("vlm")
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    with pytest.raises(ValueError, match="vllm is not installed; pip install vllm, or use the backend upside"):
        choose("vllm")
    with pytest.raises(ValueError, match="upside or transformers for a loaded model"):
        in_process("vllm", model, tokenizer)


@pytest.mark.parametrize("backend", ["upside", "transformers"])
@pytest.mark.parametrize("greedy", [True, False])
def test_damaged_weights_are_no_wrong_answers(model, tokenizer, task, backend, greedy):
    damaged = copy.deepcopy(model)
    damaged.model.norm.weight.data[3] = float("nan")
    with pytest.raises(ValueError, match="the model gives logits that are not finite"):
        evaluate(damaged, tokenizer, task.problems("test", 2), task, backend=backend, greedy=greedy, max_new_tokens=3)
