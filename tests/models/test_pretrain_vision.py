"""The script that makes the bundled vision-language model."""

import random

import pytest
import torch

from upside.models import shape_tutors, vision
from upside.models.pretrain_vision import Batches, Lesson, Plan, places, train
from upside.tasks.pictures import blocks
from upside.tasks.shapes import Shapes

TASK = Shapes()
PROBLEMS = TASK.problems("train", 6)
TINY = Plan(
    reading=3, lessons=(Lesson(40, families=("grid_area",)),), width=32, depth=(1, 1), pictures=4, warmup=1, lr=0.03
)


def test_a_batch_is_the_processors_prompt_and_the_response() -> None:
    processor = vision.processor()
    rng = random.Random(0)
    responses = [shape_tutors.solve(p, rng)[0] for p in PROBLEMS]
    batch = Batches(processor)(PROBLEMS, responses)
    for row, (problem, response) in enumerate(zip(PROBLEMS, responses, strict=True)):
        chat = [{"role": "user", "content": blocks(problem.prompt, 1)}]
        text = processor.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        alone = processor(images=[[problem.images[0].load()]], text=[f"{text}{response}<eos>"], return_tensors="pt")
        length = alone["input_ids"].shape[1]
        assert torch.equal(batch["input_ids"][row, :length], alone["input_ids"][0])
        assert batch["attention_mask"][row].sum() == length
        judged = batch["labels"][row] != -100
        assert processor.tokenizer.decode(batch["labels"][row][judged]) == f"{response}<eos>"
        assert torch.equal(batch["labels"][row][judged], batch["input_ids"][row][judged])


def test_places_tell_every_patch_from_every_other() -> None:
    table = places(8, 32)
    assert table.shape == (64, 32)
    assert torch.cdist(table, table).fill_diagonal_(9.0).min() > 0.3
    row_and_column = torch.cat([places(8, 32)[8 * 3 + 5, :16], places(8, 32)[8 * 2 + 6, 16:]])
    torch.testing.assert_close(row_and_column[:16], table[8 * 3, :16])  # the row's half does not know the column
    torch.testing.assert_close(row_and_column[16:], table[6, 16:])


def test_a_plan_warms_up_and_cools_down() -> None:
    plan = Plan(reading=20, lessons=(Lesson(40), Lesson(40)), warmup=10, cooldown=0.5)
    assert plan.steps == 100
    assert [plan.factor(step) for step in (0, 4, 9, 50, 75)] == pytest.approx([0.1, 0.5, 1.0, 1.0, 0.5])
    assert plan.factor(99) == pytest.approx(0.02)


def test_training_lowers_the_loss_and_is_deterministic() -> None:
    losses: list[list[float]] = [[], []]
    weights = [
        torch.cat([p.flatten() for p in train(TINY, lambda _, loss, run=run: run.append(loss)).parameters()])
        for run in losses
    ]
    assert torch.equal(*weights)
    assert len(losses[0]) == 43
    assert sum(losses[0][-5:]) / 5 < 0.6 * losses[0][3]


def test_training_never_draws_a_test_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    splits = set()
    draw = Shapes.draw
    monkeypatch.setattr(Shapes, "draw", lambda task, rng, split: splits.add(split) or draw(task, rng, split))
    train(Plan(reading=0, lessons=(Lesson(1),), width=32, depth=(1, 1), pictures=2))
    assert splits == {"train"}
