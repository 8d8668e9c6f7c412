"""Make the bundled model: ``python -m upside.models.pretrain [--out DIR] [--seed 0] [--steps N]``.

Plain supervised learning (cross-entropy on the response tokens, Muon and AdamW) of a small Llama on
the tutors' solutions (`upside.models.tutors`) to fresh train-split problems, half arithmetic, half knights and
knaves. One thread and a fixed number of steps: the same seed gives the same bits on the same machine and torch.
"""

from __future__ import annotations

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

ROW = 160
"""Tokens in a row of a training batch."""


@dataclass(frozen=True)
class Plan:
    """What to train and how long.

    steps: updates. rows: rows of `ROW` tokens in an update. flawless: share of the steps, the first ones, on
    flawless solutions. lr: peak learning rate of Muon (a quarter of it for AdamW), reached after `warmup` steps,
    falling linearly over the last `cooldown` share of the steps. width, depth, heads, inner: the decoder's sizes.
    bf16: compute under autocast (the weights stay fp32).
    """

    seed: int = 0
    steps: int = 2500
    rows: int = 16
    lr: float = 0.02
    flawless: float = 0.55
    warmup: int = 50
    cooldown: float = 0.45
    width: int = 128
    depth: int = 3
    heads: int = 4
    inner: int = 384
    bf16: bool = True

    def factor(self, step: int) -> float:
        """Share of the peak learning rate at a step, counted from 0."""
        left = (self.steps - step) / (self.cooldown * self.steps)
        return min(1.0, (step + 1) / self.warmup) * max(0.01, min(1.0, left))


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
            initializer_range=0.05,
            pad_token_id=tok.pad_token_id,
            bos_token_id=None,
            eos_token_id=tok.eos_token_id,
        )
    )


def examples(rng: random.Random, tok: PreTrainedTokenizerFast, flawless: bool) -> Iterator[tuple[list[int], int]]:
    """Endless (token ids, length of the prompt part) of train problems with solutions, families in turn."""
    while True:
        for task in (Arithmetic(), Knights()):
            problem = task.draw(rng, "train")
            prompt = tok.apply_chat_template(
                [{"role": "user", "content": problem.prompt}], add_generation_prompt=True, return_dict=False
            )
            response = tok(tutors.solve(problem, rng, flawless=flawless))["input_ids"]
            yield [*prompt, *response, tok.eos_token_id], len(prompt)


def batches(
    rng: random.Random, tok: PreTrainedTokenizerFast, rows: int, flawless: bool
) -> Iterator[dict[str, torch.Tensor]]:
    """Endless packed batches of input_ids, labels and position_ids, each (rows, ROW) int64.

    Every row is filled with whole examples, the rest with padding; positions start again at each example, which
    also keeps attention inside it. Labels are -100 off the responses.
    """
    stream = examples(rng, tok, flawless)
    ids, prompt = next(stream)
    while True:
        batch = {
            "input_ids": torch.full((rows, ROW), tok.pad_token_id),
            "labels": torch.full((rows, ROW), -100),
            "position_ids": torch.zeros((rows, ROW), dtype=torch.long),
        }
        for row in range(rows):
            at = 0
            while (end := at + len(ids)) <= ROW:
                batch["input_ids"][row, at:end] = torch.tensor(ids)
                batch["labels"][row, at + prompt : end] = torch.tensor(ids[prompt:])
                batch["position_ids"][row, at:end] = torch.arange(len(ids))
                at = end
                ids, prompt = next(stream)
            batch["position_ids"][row, at:] = torch.arange(ROW - at)
        yield batch


def optimizers(model: LlamaForCausalLM, plan: Plan) -> list[torch.optim.Optimizer]:
    """Muon for the hidden matrices, AdamW for the embedding and the norms. Raises RuntimeError on an old torch."""
    if not hasattr(torch.optim, "Muon"):
        raise RuntimeError(f"pretraining needs torch.optim.Muon (torch 2.9 or later), found torch {torch.__version__}")
    embedding = model.get_input_embeddings().weight
    hidden = [p for p in model.parameters() if p.ndim > 1 and p is not embedding]
    other = [p for p in model.parameters() if p.ndim <= 1 or p is embedding]
    return [
        torch.optim.Muon(hidden, lr=plan.lr, weight_decay=0.01),
        torch.optim.AdamW(other, lr=plan.lr / 4, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def train(
    plan: Plan, report: Callable[[int, float], None] | None = None
) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Train a fresh model. `report(step, loss)` is called after each step. Sets torch to one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(plan.seed)
    tok = tokenizer.build()
    model = decoder(plan, tok).train()
    model.set_attn_implementation("eager")  # twice as fast as sdpa here: short rows, bf16
    pair = optimizers(model, plan)
    schedules = [torch.optim.lr_scheduler.LambdaLR(o, plan.factor) for o in pair]
    rng = random.Random(f"pretrain/{plan.seed}")
    lessons = [batches(rng, tok, plan.rows, flawless) for flawless in (True, False)]
    for step in range(plan.steps):
        with torch.autocast("cpu", torch.bfloat16, enabled=plan.bf16):
            loss = model(**next(lessons[step >= plan.flawless * plan.steps]), use_cache=False).loss
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, schedule in zip(pair, schedules, strict=True):
            optimizer.step()
            schedule.step()
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
def main(out: Path | None, seed: int, steps: int) -> None:
    """Train the bundled tiny reasoner on tutors' solutions of mixed quality."""
    started = time.monotonic()

    def report(step: int, loss: float) -> None:
        if (step + 1) % 100 == 0 or step + 1 == steps:
            click.echo(f"step {step + 1}/{steps}  loss {loss:.3f}  {time.monotonic() - started:.0f} s")

    model, tok = train(Plan(seed=seed, steps=steps), report)
    folder = out or bundled()
    save(model, tok, folder)
    click.echo(f"{sum(p.numel() for p in model.parameters()):,} parameters saved in {folder}")


if __name__ == "__main__":
    main()
