"""Make the bundled model: ``python -m upside.models.pretrain [--out DIR] [--seed 0] [--steps N]``.

Plain supervised learning (cross-entropy on the response tokens, AdamW, cosine schedule) of a small Llama on
the tutors' solutions (`upside.models.tutors`) to fresh train-split problems, half arithmetic, half knights and
knaves. One thread and a fixed number of steps: the same seed gives the same bits on the same machine and torch.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from upside.models import bundled, tokenizer, tutors
from upside.tasks.arithmetic import Arithmetic
from upside.tasks.knights import Knights

BUCKET = 8
"""Batches drawn and sorted by length together, so that a batch holds little padding."""


@dataclass(frozen=True)
class Plan:
    """What to train and how long.

    steps: updates. batch: solutions in an update. lr: peak learning rate of AdamW, reached after `warmup`
    steps, then a cosine down to a twentieth. width, depth, heads, inner: the decoder's sizes. bf16: compute
    under autocast (weights stay fp32).
    """

    seed: int = 0
    steps: int = 6000
    batch: int = 64
    lr: float = 3e-3
    warmup: int = 100
    width: int = 128
    depth: int = 4
    heads: int = 4
    inner: int = 384
    bf16: bool = True

    def rate(self, step: int) -> float:
        """Learning rate at a step, counted from 0."""
        decay = 0.5 * (1 + math.cos(math.pi * step / self.steps))
        return self.lr * min(1.0, (step + 1) / self.warmup) * (0.05 + 0.95 * decay)


def decoder(plan: Plan, tok: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """A fresh fp32 Llama with tied embeddings."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tok),
            hidden_size=plan.width,
            intermediate_size=plan.inner,
            num_hidden_layers=plan.depth,
            num_attention_heads=plan.heads,
            num_key_value_heads=plan.heads,
            max_position_embeddings=tokenizer.CONTEXT,
            tie_word_embeddings=True,
            pad_token_id=tok.pad_token_id,
            bos_token_id=None,
            eos_token_id=tok.eos_token_id,
        )
    )


def examples(rng: random.Random, tok: PreTrainedTokenizerFast) -> Iterator[tuple[list[int], int]]:
    """Endless (token ids, length of the prompt part) of train problems with solutions, families in turn."""
    while True:
        for task in (Arithmetic(), Knights()):
            problem = task.draw(rng, "train")
            prompt = tok.apply_chat_template(
                [{"role": "user", "content": problem.prompt}], add_generation_prompt=True, return_dict=False
            )
            response = tok(tutors.solve(problem, rng))["input_ids"]
            yield [*prompt, *response, tok.eos_token_id], len(prompt)


def batches(rng: random.Random, tok: PreTrainedTokenizerFast, size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless (input ids, labels), each (size, longest) int64, right-padded; labels -100 off the response."""
    stream = examples(rng, tok)
    while True:
        bucket = sorted((next(stream) for _ in range(size * BUCKET)), key=lambda row: len(row[0]))
        starts = list(range(0, len(bucket), size))
        rng.shuffle(starts)
        for start in starts:
            rows = bucket[start : start + size]
            ids = torch.full((size, len(rows[-1][0])), tok.pad_token_id)
            labels = torch.full_like(ids, -100)
            for i, (row, prompt) in enumerate(rows):
                ids[i, : len(row)] = torch.tensor(row)
                labels[i, prompt : len(row)] = torch.tensor(row[prompt:])
            yield ids, labels


def train(
    plan: Plan, report: Callable[[int, float], None] | None = None
) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Train a fresh model. `report(step, loss)` is called after each step. Sets torch to one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(plan.seed)
    tok = tokenizer.build()
    model = decoder(plan, tok).train()
    model.set_attn_implementation("eager")
    matrices = [p for p in model.parameters() if p.ndim > 1]
    optimizer = torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": 0.01},
            {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
        ],
        lr=plan.lr,
        betas=(0.9, 0.98),
    )
    stream = batches(random.Random(f"pretrain/{plan.seed}"), tok, plan.batch)
    for step in range(plan.steps):
        for group in optimizer.param_groups:
            group["lr"] = plan.rate(step)
        ids, labels = next(stream)
        with torch.autocast("cpu", torch.bfloat16, enabled=plan.bf16):
            loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if report:
            report(step, loss.item())
    return model.eval(), tok


def save(model: LlamaForCausalLM, tok: PreTrainedTokenizerFast, out: Path) -> None:
    """Write a folder for `AutoModelForCausalLM` and `AutoTokenizer`; sampling defaults to temperature 1."""
    out.mkdir(parents=True, exist_ok=True)
    model.generation_config.update(do_sample=True, temperature=1.0, top_k=0, top_p=1.0)
    model.save_pretrained(out)
    tok.save_pretrained(out)


@click.command(context_settings={"show_default": True})
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=None,
    help="Folder to write (default: the package's own).",
)
@click.option("--seed", default=Plan.seed, help="Seed of the weights and the solutions.")
@click.option("--steps", default=Plan.steps, type=click.IntRange(1), help="Updates.")
@click.option("--batch", default=Plan.batch, type=click.IntRange(1), help="Solutions in an update.")
def main(out: Path | None, seed: int, steps: int, batch: int) -> None:
    """Train the bundled tiny reasoner on tutors' solutions of mixed quality."""
    started = time.monotonic()

    def report(step: int, loss: float) -> None:
        if (step + 1) % 100 == 0 or step + 1 == steps:
            click.echo(f"step {step + 1}/{steps}  loss {loss:.3f}  {time.monotonic() - started:.0f} s")

    model, tok = train(Plan(seed=seed, steps=steps, batch=batch), report)
    folder = out or bundled()
    save(model, tok, folder)
    click.echo(f"{sum(p.numel() for p in model.parameters()):,} parameters saved in {folder}")


if __name__ == "__main__":
    main()
