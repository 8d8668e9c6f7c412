"""What a recipe says: typed fields with their defaults."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class RecipeError(ValueError):
    """A recipe that cannot be used; the message names the key, where it stands and what to write instead."""


@dataclass
class Evaluation:
    """Held-out evaluation before and after training."""

    problems: int = 512  # from the task's test split; 0: no evaluation
    greedy: bool = True  # the likeliest response
    samples: int = 1  # and this many sampled ones per problem, as in training
    every: int = 0  # also every so many steps (0: only before and after)
    max_new_tokens: int | None = None  # None: as in training
    batch_size: int = 256  # responses generated at once


@dataclass
class Recipe:
    """Everything a run depends on. A step is one batch of fresh responses; lengths are in tokens."""

    name: str = "run"

    # what is trained
    model: str = "bundled"  # "bundled", "bundled_vision", a folder, or a name on the hub
    revision: str | None = None
    dtype: str = "float32"  # bfloat16: mixed precision
    task: str = "reasoner"  # see upside.tasks.load_task
    task_options: dict[str, Any] = field(default_factory=dict)
    train_problems: int | None = None  # None: all that the task has

    # what a response is worth
    estimator: str = "grpo"
    rewards: list[Any] = field(default_factory=lambda: ["verdict"])  # see upside.rewards.load_rewards
    reference: str = "fresh"  # AAPO's reference responses: sampled at every step, or read from a "table"
    reference_table: str | None = None  # the file of `upside reference build`
    reference_missing: str = "error"  # problems that the table lacks; "fresh": sample for them

    # how much
    steps: int = 150
    prompts_per_step: int = 16
    group_size: int = 8  # responses per prompt
    minibatches: int = 1  # optimiser steps per batch of responses
    num_iterations: int = 1  # passes over each batch of responses
    micro_batch: int | None = None  # responses per forward pass and process; None: as many as a minibatch holds

    # how responses are sampled
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_prompt_tokens: int = 512  # longer prompts are dropped at load and counted
    max_new_tokens: int = 96
    sampler: str = "upside"  # "transformers": generate(); "vllm": needs a GPU

    # how the policy moves
    loss: str = "dapo"
    epsilon: float = 0.2
    epsilon_high: float | None = None
    delta: float | None = None  # upper bound of the ratio for negative advantages (two-sided clip)
    importance: str = "token"
    mask_truncated: bool = False
    beta: float = 0.0  # weight of the KL term to the initial model
    entropy_bonus: float = 0.0
    lr: float = 1e-6
    schedule: str = "constant"
    min_lr_ratio: float = 0.1  # floor of cosine_with_min_lr
    warmup: float = 0.0  # below 1: share of the run; from 1: optimiser steps
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0

    # what is kept
    eval: Evaluation = field(default_factory=Evaluation)
    seed: int = 0
    output: str | None = None  # None: runs/<name>-<estimator>-s<seed>
    save_every: int = 50  # steps between checkpoints
    keep_checkpoints: int = 2
    resume: bool = False
    doctor: str = "warn"  # the checks of `upside doctor` during the run; "halt": stop at a failed one; "off"
    report_to: list[str] = field(default_factory=list)  # tensorboard, wandb, trackio
    processes: int | None = None  # how many must be there (torchrun starts them); None: as many as were started
    threads: int | None = None  # CPU threads of a process; None: one per free core, at most 4
    length_buckets: int = 4  # parts of similar length in which a batch is scored
    skip_zero_advantage: bool = True  # no forward and backward pass for responses that train nothing
    trl: dict[str, Any] = field(default_factory=dict)  # further fields of trl.GRPOConfig, as they are

    @property
    def responses(self) -> int:
        """Responses per step over all processes."""
        return self.prompts_per_step * self.group_size

    @property
    def updates(self) -> int:
        """Optimiser steps per step."""
        return self.minibatches * self.num_iterations

    @property
    def folder(self) -> Path:
        """Where the run is written."""
        if self.output is not None:
            return Path(self.output)
        safe = "".join(c if c.isalnum() or c in "_.=-" else "-" for c in self.estimator.replace(" ", ""))
        return Path("runs") / f"{self.name}-{safe}-s{self.seed}"


def nearest(name: str, known: Sequence[str]) -> str:
    """` did you mean …?` with the closest known names, "" where none is close."""
    close = difflib.get_close_matches(str(name), known, n=2, cutoff=0.5)
    return f" did you mean {' or '.join(repr(c) for c in close)}?" if close else ""
