"""Make the bundled vision-language model: ``python -m upside.models.pretrain_vision [--out DIR] [--seed 0]``.

Plain supervised learning (cross-entropy on the response tokens, Muon and AdamW) of a small Idefics3
(`upside.models.vision`): first of its eyes alone, on marks to be named (`upside.models.reading`), then of all of it on
the tutors' solutions (`upside.models.shape_tutors`) of fresh train-split pictures, right rules before all rules. One
thread and a fixed number of steps: the same seed gives the same bits on the same machine and torch.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import torch
from transformers import Idefics3ForConditionalGeneration, Idefics3Processor

from upside.models import bundled_vision, shape_tutors, vision
from upside.models.reading import Reader, as_pixels
from upside.tasks.base import Problem
from upside.tasks.pictures import blocks
from upside.tasks.shapes import FAMILIES, Shapes


@dataclass(frozen=True)
class Lesson:
    """steps: updates. flawless: right rules only, else all that the tutors do. families: to draw from."""

    steps: int
    flawless: bool = True
    families: tuple[str, ...] = tuple(FAMILIES)


@dataclass(frozen=True)
class Plan:
    """What to train and how long.

    reading: updates of the eyes alone. lessons: then, one after the other. pictures: of an update. lr: peak learning
    rate of Muon (a quarter of it for AdamW), reached after `warmup` steps, falling linearly over the last `cooldown`
    share of all steps. width, depth, heads: see `vision.network`.
    """

    reading: int = 1500
    lessons: tuple[Lesson, ...] = (Lesson(10_000), Lesson(3500, flawless=False))
    seed: int = 0
    pictures: int = 16
    lr: float = 0.01
    warmup: int = 50
    cooldown: float = 0.5
    width: int = 96
    depth: tuple[int, int] = (2, 3)
    heads: int = 4

    @property
    def steps(self) -> int:
        return self.reading + sum(lesson.steps for lesson in self.lessons)

    def factor(self, step: int) -> float:
        """Share of the peak learning rate at a step, counted from 0."""
        left = (self.steps - step) / (self.cooldown * self.steps)
        return min(1.0, (step + 1) / self.warmup) * max(0.01, min(1.0, left))


def places(side: int, width: int) -> torch.Tensor:
    """(side * side, width) sines and cosines of row and column: a start from which patches know their neighbours."""
    waves = torch.arange(side)[:, None] / 100 ** (torch.arange(width // 4) / (width // 4))
    line = torch.cat([waves.sin(), waves.cos()], dim=1)  # (side, width / 2)
    rows, columns = line[:, None].expand(-1, side, -1), line[None].expand(side, -1, -1)
    return torch.cat([rows, columns], dim=2).reshape(side * side, -1)


def network(plan: Plan, processor: Idefics3Processor) -> Idefics3ForConditionalGeneration:
    """A fresh model whose patches start with their place in the picture."""
    model = vision.network(processor.tokenizer, plan.seed, plan.width, plan.depth, plan.heads)
    embedding = model.model.vision_model.embeddings.position_embedding.weight
    with torch.no_grad():
        embedding.copy_(places(math.isqrt(len(embedding)), plan.width) / 2)
    return model


class Batches:
    """Turns problems and responses into batches, padded on the right."""

    def __init__(self, processor: Idefics3Processor) -> None:
        self.processor, self.tok = processor, processor.tokenizer
        self._prompts: dict[str, list[int]] = {}

    def prompt(self, problem: Problem) -> list[int]:
        """Token ids, those that stand for the picture included. All pictures take the same."""
        if problem.prompt not in self._prompts:
            chat = [{"role": "user", "content": blocks(problem.prompt, 1)}]
            text = self.processor.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
            ids = self.processor(images=[[problem.images[0].load()]], text=[text])["input_ids"]
            self._prompts[problem.prompt] = list(ids[0])
        return self._prompts[problem.prompt]

    def __call__(self, problems: Sequence[Problem], responses: Sequence[str]) -> dict[str, torch.Tensor]:
        """input_ids, attention_mask, labels (N, T) int64, labels -100 off the responses, and pixel_values."""
        prompts = [self.prompt(problem) for problem in problems]
        answers = [[*self.tok(response)["input_ids"], self.tok.eos_token_id] for response in responses]
        rows = [torch.tensor(prompt + answer) for prompt, answer in zip(prompts, answers, strict=True)]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=self.tok.pad_token_id)
        mask, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
        for row, prompt in enumerate(prompts):
            end = len(rows[row])
            mask[row, :end] = 1
            labels[row, len(prompt) : end] = ids[row, len(prompt) : end]
        pixels = as_pixels([problem.images[0].load() for problem in problems])
        return {"input_ids": ids, "attention_mask": mask, "labels": labels, "pixel_values": pixels}


def optimizers(modules: Sequence[torch.nn.Module], plan: Plan) -> list[torch.optim.Optimizer]:
    """Muon for the hidden matrices, AdamW for the rest. Raises RuntimeError on an old torch."""
    if not hasattr(torch.optim, "Muon"):
        raise RuntimeError(f"pretraining needs torch.optim.Muon (torch 2.9 or later), found torch {torch.__version__}")
    outer = (torch.nn.Embedding, Reader)
    ends = {id(m.weight) for module in modules for m in module.modules() if isinstance(m, outer)}
    weights = [p for module in modules for p in module.parameters()]
    return [
        torch.optim.Muon([p for p in weights if p.ndim == 2 and id(p) not in ends], lr=plan.lr, weight_decay=0.01),
        torch.optim.AdamW(
            [p for p in weights if p.ndim != 2 or id(p) in ends], lr=plan.lr / 4, betas=(0.9, 0.98), weight_decay=0.0
        ),
    ]


def losses(
    model: Idefics3ForConditionalGeneration, reader: Reader, processor: Idefics3Processor, plan: Plan
) -> Iterator[torch.Tensor]:
    """The loss of each step of the plan in turn."""
    rng, batches = random.Random(f"pretrain_vision/{plan.seed}"), Batches(processor)
    for _ in range(plan.reading):
        yield reader.loss(model, rng, plan.pictures)
    for lesson in plan.lessons:
        task = Shapes(lesson.families)
        for _ in range(lesson.steps):
            problems = [task.draw(rng, "train") for _ in range(plan.pictures)]
            solutions = [shape_tutors.solve(problem, rng, flawless=lesson.flawless)[0] for problem in problems]
            yield model(**batches(problems, solutions), use_cache=False).loss


def train(plan: Plan, report: Callable[[int, float], None] | None = None) -> Idefics3ForConditionalGeneration:
    """Train a fresh model. `report(step, loss)` is called after each step. Sets torch to one thread."""
    torch.set_num_threads(1)
    processor = vision.processor()
    model, reader = network(plan, processor).train(), Reader(plan.width)
    pair = optimizers([model, reader], plan)
    schedules = [torch.optim.lr_scheduler.LambdaLR(o, plan.factor) for o in pair]
    for step, loss in enumerate(losses(model, reader, processor, plan)):
        for optimizer in pair:
            optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, schedule in zip(pair, schedules, strict=True):
            optimizer.step()
            schedule.step()
        if report:
            report(step, loss.item())
    return model.eval()


@click.command(context_settings={"show_default": True})
@click.option("--out", type=click.Path(path_type=Path), help="Folder to write (default: the package's own).")
@click.option("--seed", default=Plan.seed, help="Seed of the weights, the pictures and the solutions.")
def main(out: Path | None, seed: int) -> None:
    """Train the bundled vision-language reasoner on tutors' solutions of mixed quality."""
    plan, started = Plan(seed=seed), time.monotonic()

    def report(step: int, loss: float) -> None:
        if (step + 1) % 100 == 0 or step + 1 == plan.steps:
            click.echo(f"step {step + 1}/{plan.steps}  loss {loss:.3f}  {time.monotonic() - started:.0f} s")

    model = train(plan, report)
    folder = out or bundled_vision()
    vision.save(model, folder)
    click.echo(f"{sum(p.numel() for p in model.parameters()):,} parameters saved in {folder}")


if __name__ == "__main__":
    main()
