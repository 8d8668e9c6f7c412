"""The TRL engine in real runs of a tiny model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from trl import GRPOTrainer

import upside
from upside.engines.sampler import rollout
from upside.engines.trl import AdvantageTrainer, ScoredRollouts
from upside.registry import STAGES, register_stage
from upside.rewards import RewardError


def make(model: Path, output: Path, cls: Any = AdvantageTrainer, changes: dict | None = None, **options: Any) -> Any:
    options = {"reward_funcs": [tiny.reward], "train_dataset": tiny.dataset(), **options}
    return cls(model=str(model), args=tiny.config(output, **(changes or {})), **options)


class Watched(AdvantageTrainer):
    """Keeps what the loss gets and counts the scoring passes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.outputs: list[dict] = []
        self.passes = 0
        super().__init__(*args, **kwargs)

    def _generate_and_score_completions(self, inputs: Any) -> dict:
        output = super()._generate_and_score_completions(inputs)
        self.outputs.append({k: v.clone() for k, v in output.items() if torch.is_tensor(v)})
        return output

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> tuple:
        self.passes += 1
        return super()._get_per_token_logps_and_entropies(*args, **kwargs)


def test_grpo_estimator_is_trl_grpo(model: Path, tmp_path: Path) -> None:
    plain = make(model, tmp_path / "a", GRPOTrainer)
    plain.train()
    ours = make(model, tmp_path / "b", estimator="grpo:eps=1e-4")
    ours.train()
    assert tiny.losses(ours) == pytest.approx(tiny.losses(plain), abs=1e-6)
    for a, b in zip(plain.model.parameters(), ours.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("spec", ["canon:metric=length,mu=0.3", "grpo > adora_weight", "canon_inter"])
def test_trained_logged_and_computed_advantages_are_one(model: Path, tmp_path: Path, spec: str) -> None:
    seen: list[ScoredRollouts] = []
    trainer = make(model, tmp_path, Watched, estimator=spec, on_rollouts=seen.append)
    trainer.train()
    assert len(seen) == 3
    for rollouts, output in zip(seen, trainer.outputs, strict=True):
        again = upside.estimator(spec)(rollouts.batch)
        assert torch.equal(output["advantages"], rollouts.advantages.values)
        assert torch.equal(again.values, rollouts.advantages.values)
        assert rollouts.advantages.values.abs().max() > 0
    assert list(trainer._logs["advantages"]) == seen[-1].advantages.values.tolist()
    logged = [log["advantage/zero_advantage_share"] for log in trainer.state.log_history if "loss" in log]
    assert logged == pytest.approx([r.advantages.metrics["zero_advantage_share"] for r in seen])


def test_steps_count_from_one_and_groups_are_prompts(model: Path, tmp_path: Path) -> None:
    seen: list[ScoredRollouts] = []
    make(model, tmp_path, estimator="grpo", on_rollouts=seen.append).train()
    assert [r.batch.step for r in seen] == [1, 2, 3]
    assert seen[0].batch.total_steps == 3
    for rollouts in seen:
        for group in range(4):
            rows = [i for i, g in enumerate(rollouts.batch.groups.tolist()) if g == group]
            assert len(rows) == 4
            assert len({rollouts.prompts[i] for i in rows}) == 1


def test_a_step_is_a_batch_of_responses_not_an_update(model: Path, tmp_path: Path) -> None:
    seen: list[ScoredRollouts] = []
    changes = {"per_device_train_batch_size": 8, "steps_per_generation": 2, "gradient_accumulation_steps": 1}
    make(model, tmp_path, estimator="grpo", on_rollouts=seen.append, changes={**changes, "max_steps": 4}).train()
    assert [r.batch.step for r in seen] == [1, 2]
    assert seen[0].batch.total_steps == 2
    seen.clear()
    make(model, tmp_path, estimator="grpo", on_rollouts=seen.append, changes={**changes, "max_steps": 3}).train()
    assert [(r.batch.step, r.batch.total_steps) for r in seen] == [(1, 2), (2, 2)]  # the second one half used


@pytest.mark.parametrize(
    ("spec", "own_sampler", "passes"), [("grpo", False, 3), ("canon_inter", False, 6), ("canon_inter", True, 3)]
)
def test_scoring_passes(model: Path, tmp_path: Path, spec: str, own_sampler: bool, passes: int) -> None:
    options = {"rollout_func": rollout} if own_sampler else {}
    trainer = make(model, tmp_path, Watched, estimator=spec, **options)
    trainer.train()
    assert trainer.passes == passes


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("own_sampler", [False, True])
@pytest.mark.parametrize("extra", [{}, {"beta": 0.1}, {"num_iterations": 2, "beta": 0.1}])
def test_lengths_truncation_and_entropy(
    model: Path, tmp_path: Path, masked: bool, own_sampler: bool, extra: dict
) -> None:
    """Against the model itself: temperature 0.7, raw lengths with EOS even where the loss masks the response."""
    # trl#3476, trl#4976: lengths logged from the zeroed mask; OpenRLHF#1319: entropy from unscaled logits
    seen: list[ScoredRollouts] = []
    changes = {"temperature": 0.7, "mask_truncated_completions": masked, "max_steps": 1, "learning_rate": 0.0, **extra}
    options = {"rollout_func": rollout} if own_sampler else {}
    trainer = make(
        model, tmp_path, Watched, estimator="canon_inter", on_rollouts=seen.append, changes=changes, **options
    )
    trainer.train()
    batch, output = seen[0].batch, trainer.outputs[0]
    assert batch.truncated.any()
    assert not batch.truncated.all()
    fresh = tiny.Qwen2ForCausalLM.from_pretrained(model)
    for row in range(len(batch)):
        prompt = output["prompt_ids"][row][output["prompt_mask"][row].bool()]
        length = int(batch.lengths[row])
        answer = output["completion_ids"][row][:length]
        assert batch.truncated[row] == (int(answer[-1]) not in tiny.ENDS)
        assert (length == 12) or int(answer[-1]) in tiny.ENDS
        with torch.no_grad():
            logits = fresh(torch.cat([prompt, answer])[None]).logits[0, len(prompt) - 1 : -1] / 0.7
        logp = logits.log_softmax(-1)
        entropy = -(logp.exp() * logp).sum(-1).mean()
        assert float(batch.entropy[row]) == pytest.approx(float(entropy), abs=1e-4)


def test_rows_without_a_reward_get_zero_and_leave_the_statistics(model: Path, tmp_path: Path) -> None:
    def some_none(completion_ids: list[list[int]], **columns: Any) -> list[float | None]:
        return [None if i % 4 == 0 else float(i % 4) for i in range(len(completion_ids))]

    seen: list[ScoredRollouts] = []
    trainer = make(model, tmp_path, Watched, reward_funcs=[some_none], estimator="dr_grpo", on_rollouts=seen.append)
    trainer.train()
    assert trainer.outputs[0]["advantages"].tolist() == [0.0, -1.0, 0.0, 1.0] * 4
    assert seen[0].batch.valid.tolist() == [False, True, True, True] * 4
    assert seen[0].advantages.metrics["invalid_share"] == 0.25


def test_partly_missing_rewards_sum_the_rest(model: Path, tmp_path: Path) -> None:
    def first(completion_ids: list, **columns: Any) -> list[float | None]:
        return [None if i % 2 else 1.0 for i in range(len(completion_ids))]

    def second(completion_ids: list, **columns: Any) -> list[float | None]:
        return [float(i % 4) for i in range(len(completion_ids))]

    seen: list[ScoredRollouts] = []
    changes = {"reward_weights": [2.0, 0.5], "max_steps": 1}
    make(
        model, tmp_path, reward_funcs=[first, second], estimator="grpo", on_rollouts=seen.append, changes=changes
    ).train()
    assert seen[0].batch.rewards.tolist() == [2.0, 0.5, 3.0, 1.5] * 4


def test_correctness_reaches_the_estimator(model: Path, tmp_path: Path) -> None:
    def right(completion_ids: list, **columns: Any) -> list[bool]:
        return [i % 2 == 0 for i in range(len(completion_ids))]

    seen: list[ScoredRollouts] = []
    make(model, tmp_path, estimator="canon_dynamic", correctness=right, on_rollouts=seen.append).train()
    assert seen[0].batch.correct.tolist() == [True, False] * 8
    assert float(seen[0].batch.accuracy()) == 0.5


def test_named_metric(model: Path, tmp_path: Path) -> None:
    def digits(completions: list[str], **columns: Any) -> list[int]:
        return [sum(c.isdigit() for c in text) for text in completions]

    seen: list[ScoredRollouts] = []
    options = {"response_metrics": {"digits": digits}, "on_rollouts": seen.append}
    make(model, tmp_path, estimator="canon:metric=digits", **options).train()
    expected = [sum(c.isdigit() for c in text) for text in seen[0].completions]
    assert seen[0].batch.metrics["digits"].tolist() == expected


def test_a_column_serves_as_a_metric(model: Path, tmp_path: Path) -> None:
    rows = tiny.dataset().add_column("baseline", [i / 64 for i in range(64)])
    seen: list[ScoredRollouts] = []
    make(model, tmp_path, estimator="remax", train_dataset=rows, on_rollouts=seen.append).train()
    batch = seen[0].batch
    torch.testing.assert_close(
        seen[0].advantages.values, (batch.rewards - batch.metrics["baseline"]).float(), atol=1e-6, rtol=1e-6
    )


def test_a_need_that_nobody_supplies_is_refused_before_training(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"needs digits.*response_metrics"):
        make(model, tmp_path, estimator="canon:metric=digits")


def test_a_reward_function_that_raises_is_named(model: Path, tmp_path: Path) -> None:
    calls = []

    def brittle(completion_ids: list, **columns: Any) -> list[float]:
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("gold")
        return [float(i) for i in range(len(completion_ids))]

    trainer = make(model, tmp_path, reward_funcs=[brittle], estimator="grpo")
    with pytest.raises(RewardError, match=r"'brittle' raised KeyError at step 2: 'gold'"):
        trainer.train()


def test_evaluation_does_not_call_the_estimator(model: Path, tmp_path: Path) -> None:
    # trl#5787, trl#7144: evaluation apart from the training reward
    seen: list[ScoredRollouts] = []
    changes = {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 8, "max_steps": 2}
    options = {"eval_dataset": tiny.dataset(4), "on_rollouts": seen.append}
    trainer = make(model, tmp_path, estimator="grpo", changes=changes, **options)
    trainer.train()
    assert len(seen) == 2
    assert sum("eval_reward" in log for log in trainer.state.log_history) == 2


def test_estimator_state_is_saved_and_restored(model: Path, tmp_path: Path) -> None:
    class Counting:
        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, rollouts: upside.Rollouts, advantages: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return advantages

        def state_dict(self) -> dict[str, int]:
            return {"calls": self.calls}

        def load_state_dict(self, state: dict[str, int]) -> None:
            self.calls = state["calls"]

    register_stage("counting_for_test", kind="augment")(Counting)
    try:
        changes = {"save_strategy": "steps", "save_steps": 2, "max_steps": 2}
        first = make(model, tmp_path, estimator="grpo > counting_for_test", changes=changes)
        first.train()
        saved = json.loads((tmp_path / "checkpoint-2" / "advantage_estimator.json").read_text())
        assert list(saved.values()) == [{"calls": 2}]
        again = make(model, tmp_path, estimator="grpo > counting_for_test", changes={**changes, "max_steps": 3})
        again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
        assert again.estimator.stages[-1].run.calls == 3
    finally:
        del STAGES["counting_for_test"]


@pytest.mark.parametrize("loss", ["dapo", "cross_entropy", "grpo", "sapo"])
@pytest.mark.parametrize("reuse", [1, 2])
def test_skipping_zero_advantages_changes_nothing_but_the_work(
    model: Path, tmp_path: Path, loss: str, reuse: int
) -> None:
    def half_dead(completion_ids: list[list[int]], **columns: Any) -> list[float]:
        return [len(ids) if i < 8 else 1.0 for i, ids in enumerate(completion_ids)]

    changes = {"loss_type": loss, "num_iterations": reuse, "max_steps": 2 * reuse}
    options = {"estimator": "grpo", "reward_funcs": [half_dead], "rollout_func": rollout, "changes": changes}
    rows: list[int] = []

    whole = make(model, tmp_path / "a", **options)
    whole.train()
    less = make(model, tmp_path / "b", skip_zero_advantage=True, length_buckets=2, **options)
    less.model.register_forward_pre_hook(
        lambda _, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    less.train()
    for key in ("loss", "grad_norm", "entropy"):
        one, other = ([log[key] for log in t.state.log_history if "loss" in log] for t in (whole, less))
        tolerance = 2e-2 if key == "entropy" and reuse > 1 else 1e-4
        assert other == pytest.approx(one, rel=tolerance, abs=1e-5)
    for a, b in zip(whole.model.parameters(), less.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-2)
    assert 4 in rows  # two buckets of the eight live rows


def test_a_batch_without_any_signal(model: Path, tmp_path: Path) -> None:
    def dead(completion_ids: list, **columns: Any) -> list[float]:
        return [1.0] * len(completion_ids)

    options = {"reward_funcs": [dead], "rollout_func": rollout, "skip_zero_advantage": True}
    trainer = make(model, tmp_path, estimator="grpo", **options)
    trainer.train()
    assert tiny.losses(trainer) == [0.0, 0.0, 0.0]
    initial = tiny.Qwen2ForCausalLM.from_pretrained(model)
    for a, b in zip(trainer.model.parameters(), initial.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", upside.presets())
def test_every_preset_trains(model: Path, tmp_path: Path, name: str) -> None:
    def right(completion_ids: list[list[int]], **columns: Any) -> list[bool]:
        return [sum(ids) % 2 == 0 for ids in completion_ids]

    rows = tiny.dataset().add_column("baseline", [0.4] * 64)
    seen: list[ScoredRollouts] = []
    options = {"correctness": right, "rollout_func": rollout, "train_dataset": rows, "on_rollouts": seen.append}
    trainer = make(model, tmp_path, estimator=name, changes={"max_steps": 1}, **options)
    trainer.train()
    assert seen[0].advantages.values.isfinite().all()
    assert seen[0].advantages.values.abs().max() > 0
    assert tiny.first(trainer, "grad_norm") > 0
