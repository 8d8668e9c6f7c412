"""Each row is answered and scored with its own picture, whatever the batch is cut into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
import tiny_vision
import torch

from upside.engines.pictures import Pictures, of_rows, one_row_each
from upside.engines.sampler import picture_tokens, rollout, sample
from upside.engines.trl import AdvantageTrainer, ScoredRollouts
from upside.models.loading import load_model
from upside.tasks.base import Problem
from upside.tasks.prompts import prompt_ids
from upside.training.prompts import prompt_rows

KINDS: dict[str, Callable[[Path], Path]] = {"idefics3": tiny_vision.idefics, "llava": tiny_vision.llava}


@pytest.fixture(scope="module", params=KINDS)
def seeing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return KINDS[request.param](tmp_path_factory.mktemp(request.param))


def plain_logps(
    model: Any, reader: Any, problem: Problem, response: list[int], never: list[int] | None = None
) -> torch.Tensor:
    """Log-probabilities of a response by one forward pass over one row; never: tokens that are not drawn. (T,)"""
    ids = torch.tensor([prompt_ids(reader, problem) + response])
    shown = Pictures.of_problems(reader, [problem])
    with torch.no_grad():
        logits = model(input_ids=ids, **(shown.inputs([0]) if shown else {})).logits[0]
    logits[:, never or []] = -torch.inf
    logps = logits.log_softmax(-1)
    return logps[-len(response) - 1 : -1].gather(1, ids[0, -len(response) :, None])[:, 0]


@pytest.mark.parametrize("problems", [tiny_vision.shapes, tiny_vision.mixed])
def test_the_sampler_shows_each_prompt_its_own_pictures(seeing: Path, problems: Callable[[int], list[Problem]]) -> None:
    model, reader = load_model(seeing)
    rows = [problem for problem in problems(6) for _ in range(3)]
    prompts = [prompt_ids(reader, problem) for problem in rows]
    torch.manual_seed(0)
    found = sample(model.eval(), prompts, eos_ids=[1], max_new_tokens=8, pictures=Pictures.of_problems(reader, rows))
    for problem, ids, logps in zip(rows, found.ids, found.logps, strict=True):
        own = plain_logps(model, reader, problem, ids, picture_tokens(model))
        torch.testing.assert_close(own, torch.tensor(logps), atol=1e-4, rtol=0)


class Kept(AdvantageTrainer):
    """Keeps (response, its log-probabilities) of every row of every scoring pass. asked: response -> its problems."""

    scored: list[tuple[tuple[int, ...], torch.Tensor]]
    asked: dict[tuple[int, ...], set[int]]
    idle = 0

    def _get_per_token_logps_and_entropies(self, model: Any, ids: Any, mask: Any, keep: int, *a: Any, **k: Any) -> Any:
        out = super()._get_per_token_logps_and_entropies(model, ids, mask, keep, *a, **k)
        for row in range(len(ids)):
            response = ids[row, -keep:][mask[row, -keep:] == 1].tolist()
            if self._idle is not None and bool(self._idle.idle[row]):
                self.idle += 1
            else:
                self.scored.append((tuple(response), out[0][row, : len(response)].detach()))
        return out


def trained(folder: Path, problems: list[Problem], output: Path, **options: Any) -> Kept:
    model, reader = load_model(folder)
    config, resume = options.pop("config", {}), options.pop("resume", None)

    def reward(completion_ids: list[list[int]], problem: list[int], **columns: Any) -> list[float]:
        for ids, i in zip(completion_ids, problem, strict=True):
            trainer.asked.setdefault(tuple(ids), set()).add(i)
        return [float(sum(ids) % 5) if i % 2 else 0.0 for ids, i in zip(completion_ids, problem, strict=True)]

    trainer = Kept(
        model=model,
        processing_class=reader,
        reward_funcs=[reward],
        args=tiny.config(
            output, max_completion_length=10, temperature=1.0, max_steps=3,
            **{"per_device_train_batch_size": 12, "num_generations": 3, "learning_rate": 0.0, **config},
        ),
        train_dataset=prompt_rows(problems, list(range(len(problems))) * 3, reader),
        **{"estimator": "grpo", "rollout_func": rollout, **options},
    )  # fmt: skip
    trainer.asked, trainer.scored = {}, []
    trainer.train(resume_from_checkpoint=resume)
    return trainer


@pytest.mark.parametrize("problems", [tiny_vision.shapes, tiny_vision.mixed])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"length_buckets": 3, "skip_zero_advantage": True},
        {
            "length_buckets": 3,
            "config": {"per_device_train_batch_size": 6, "steps_per_generation": 2, "num_iterations": 2},
        },
        {"config": {"per_device_train_batch_size": 3, "steps_per_generation": 4, "beta": 0.1}},
    ],
    ids=["one pass", "buckets, idle rows left out", "minibatches, two iterations", "a prompt at a time, KL"],
)
def test_the_scoring_pass_sees_each_rows_own_picture(
    seeing: Path, problems: Callable[[int], list[Problem]], options: dict[str, Any], tmp_path: Path
) -> None:
    asked = problems(8)
    trainer = trained(seeing, asked, tmp_path, **options)
    model, reader, wrong = trainer.model.eval(), trainer.processing_class, []
    known = [(asked[min(own)], *each) for each in trainer.scored if len(own := trainer.asked[each[0]]) == 1]
    assert len(known) >= 4
    for problem, response, logps in known:
        torch.testing.assert_close(logps, plain_logps(model, reader, problem, list(response)), atol=1e-4, rtol=0)
        other = next((p for p in asked if p.prompt == problem.prompt and p.images != problem.images), None)
        if other is not None:
            wrong.append((logps - plain_logps(model, reader, other, list(response))).abs().max())
    assert wrong
    assert min(wrong) > 1e-3
    assert (trainer.idle > 0) == ("skip_zero_advantage" in options)


def test_a_resumed_run_goes_on_from_the_saved_weights(seeing: Path, tmp_path: Path) -> None:
    # llava's weights are saved under other names than the model's own, as those of Qwen2.5-VL are
    config = {"learning_rate": 1e-2, "save_strategy": "steps", "save_steps": 1}
    whole = trained(seeing, tiny_vision.mixed(8), tmp_path, config=config)
    resumed = trained(seeing, tiny_vision.mixed(8), tmp_path, config=config, resume=str(tmp_path / "checkpoint-2"))
    for name, weight in whole.model.state_dict().items():
        torch.testing.assert_close(resumed.model.state_dict()[name], weight, atol=0, rtol=0)


def test_both_samplers_and_the_reference_see_the_same_pictures(seeing: Path, tmp_path: Path) -> None:
    # the likeliest responses: what the policy writes to its pictures, its frozen copy writes to the same ones
    found = []
    for sampler in (rollout, None):
        seen: list[ScoredRollouts] = []
        problems = tiny_vision.mixed(8)
        trained(
            seeing, problems, tmp_path, config={"top_k": 1, "seed": 5}, rollout_func=sampler, estimator="aapo",
            on_rollouts=seen.append,
        )  # fmt: skip
        found.append([[one[0]["content"] for one in step.completions] for step in seen])
        for step in seen:
            torch.testing.assert_close(step.batch.reference_rewards, step.batch.rewards)
            assert step.reference_tokens
            assert len(set(step.batch.rewards.tolist())) > 1
    assert found[0] == found[1]
    assert len({text for step in found[0] for text in step}) > 2


def test_rows_are_told_apart_where_pictures_are_padded_to_one_row_each() -> None:
    # no and two pictures: as many pictures as rows, which must not be mistaken for one row a picture
    inputs = {"pixel_values": torch.arange(4.0).reshape(2, 2, 1, 1, 1), "num_images": [0, 2], "batch_size": 7}
    of_second = of_rows(one_row_each(inputs), torch.tensor([1]))
    assert of_second["pixel_values"].flatten().tolist() == [2, 3]
    assert of_second["batch_size"] == 7


def test_rows_of_one_row_a_picture_and_of_values_a_token() -> None:
    inputs = {
        "pixel_values": torch.arange(3.0).reshape(3, 1, 1, 1),
        "num_images": [1, 0, 2],
        "token_type_ids": torch.tensor([[0, 1, 2], [3, 4, 5], [6, 7, 8]]),
        "image_grid_thw": None,
    }
    picked = of_rows(inputs, torch.tensor([2, 0]), slice(1, 3))
    assert picked["pixel_values"].flatten().tolist() == [1, 2, 0]
    assert picked["num_images"] == [2, 1]
    assert picked["token_type_ids"].tolist() == [[7, 8], [1, 2]]
    assert picked["image_grid_thw"] is None
    assert set(of_rows(inputs, torch.tensor([1]))) == {"token_type_ids", "image_grid_thw"}


def test_models_that_the_sampler_does_not_know_are_refused_pictures(seeing: Path) -> None:
    model, reader = load_model(seeing)
    problem = tiny_vision.shapes(1)[0]
    shown = Pictures.of_problems(reader, [problem])
    model.config.model_type = "mllama"
    with pytest.raises(ValueError, match="does not show pictures to models of type mllama; use transformers"):
        sample(model, [prompt_ids(reader, problem)], eos_ids=[1], max_new_tokens=2, pictures=shown)
