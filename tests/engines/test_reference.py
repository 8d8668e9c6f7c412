"""AAPO's reference responses come from the initial weights, whatever the policy has become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM

from upside.engines.sampler import rollout, sample
from upside.engines.trl import AdvantageTrainer, ScoredRollouts


def make(model: Path, output: Path, changes: dict | None = None, **options: Any) -> AdvantageTrainer:
    options = {"reward_funcs": [tiny.reward], "train_dataset": tiny.dataset(), "estimator": "aapo", **options}
    return AdvantageTrainer(model=str(model), args=tiny.config(output, **(changes or {})), **options)


def test_reference_stays_the_initial_policy(model: Path, tmp_path: Path) -> None:
    initial = AutoModelForCausalLM.from_pretrained(model)
    trainer = make(model, tmp_path, changes={"learning_rate": 0.05})
    trainer.train()
    prompts = [[5, 6, 7], [8, 9], [10, 11, 12, 13]]
    greedy = {"eos_ids": tiny.ENDS, "max_new_tokens": 12, "greedy": True}
    reference = sample(trainer.reference.model, prompts, **greedy)
    assert reference.ids == sample(initial, prompts, **greedy).ids
    assert reference.entropies != sample(trainer.model, prompts, **greedy).entropies
    config = trainer.generation_config
    config.do_sample = False
    ids = trainer.reference.model.generate(input_ids=torch.tensor([[5, 6, 7]]), generation_config=config)
    assert ids[0, 3:].tolist() == reference.ids[0]


@pytest.mark.parametrize("options", [{}, {"rollout_func": rollout}])
def test_one_reference_reward_per_response(model: Path, tmp_path: Path, options: dict) -> None:
    seen: list[ScoredRollouts] = []
    scored: list[list[list[int]]] = []

    def reward(completion_ids: list[list[int]], log_metric: Any, log_extra: Any, **columns: Any) -> list[float]:
        scored.append(completion_ids)
        values = [sum(ids) / len(ids) / 260 for ids in completion_ids]
        log_metric("mean_id", sum(values) / len(values))
        log_extra("value", values)
        return values

    trainer = make(model, tmp_path, reward_funcs=[reward], on_rollouts=seen.append, **options)
    trainer.train()
    assert len(scored) == 6  # policy, reference, policy, …
    for step, rollouts in enumerate(seen):
        policy, reference = scored[2 * step], scored[2 * step + 1]
        assert rollouts.reference_tokens == sum(map(len, reference))
        expected = [sum(ids) / len(ids) / 260 for ids in reference]
        assert rollouts.batch.reference_rewards.tolist() == pytest.approx(expected, abs=1e-6)
        assert len({tuple(ids) for ids in reference}) > 8  # sampled, not greedy
        assert policy != reference
        for ids in reference:
            assert len(ids) == 12 or ids[-1] in tiny.ENDS
            assert not set(ids[:-1]) & set(tiny.ENDS)
        margin = (rollouts.batch.rewards - rollouts.batch.reference_rewards).clamp(-0.2, 0.28)
        assert rollouts.advantages.metrics["margin_mean"] == pytest.approx(float(margin.mean()), abs=1e-6)
    # what the reward function logged about the reference responses is not in the policy's table
    assert len(trainer._logs["extra"]["value"]) == 16
    mean = trainer.state.log_history[-2]["mean_id"]
    assert mean == pytest.approx(sum(sum(i) / len(i) / 260 for i in scored[4]) / 16, abs=1e-6)


def test_a_column_replaces_the_sampling(model: Path, tmp_path: Path) -> None:
    rows = [{**row, "reference_reward": 0.25 + 0.5 * (i % 2)} for i, row in enumerate(tiny.dataset())]
    rows[0]["reference_reward"] = None
    seen: list[ScoredRollouts] = []
    trainer = make(model, tmp_path, train_dataset=Dataset.from_list(rows), on_rollouts=seen.append)
    assert trainer.reference is None
    trainer.train()
    assert set(seen[0].batch.reference_rewards.nan_to_num(-1).tolist()) <= {0.25, 0.75, -1}


def test_a_table_replaces_the_sampling(model: Path, tmp_path: Path) -> None:
    rows = Dataset.from_list([{**row, "problem": i % 8} for i, row in enumerate(tiny.dataset())])
    table = {i: [i + 0.1, i + 0.2, i + 0.3, None, i + 0.5, i + 0.6] for i in range(8)}
    seen: list[ScoredRollouts] = []
    scored: list[int] = []

    def reward(completion_ids: list[list[int]], problem: list[int], **columns: Any) -> list[float]:
        scored.extend(problem)
        return [0.5 * (i % 2) for i in range(len(completion_ids))]

    options = {"reward_funcs": [reward], "train_dataset": rows, "reference_table": table}
    trainer = make(model, tmp_path, on_rollouts=seen.append, **options)
    trainer.train()
    assert len(scored) == 3 * 16  # no reference response was sampled and scored
    for step, rollouts in enumerate(seen):
        problems = scored[16 * step : 16 * (step + 1)]
        expected = [table[problem][(4 * step + row % 4) % 6] for row, problem in enumerate(problems)]
        values = rollouts.batch.reference_rewards.nan_to_num(-1).tolist()
        assert values == pytest.approx([-1 if value is None else value for value in expected], abs=1e-6)
    options["reference_table"] = {i: table[i] for i in range(6)}
    with pytest.raises(ValueError, match=r"reference_table: 2 of 8 problems have no samples there \(first: 6\)"):
        make(model, tmp_path, **options)
    assert make(model, tmp_path, reference_missing="fresh", **options).reference.fresh is not None
    with pytest.raises(ValueError, match="reference_missing='maybe' is unknown"):
        make(model, tmp_path, reference_missing="maybe", **options)
    with pytest.raises(ValueError, match="no column `problem`"):
        make(model, tmp_path, reference_table=table)


def test_no_reference_model_where_none_is_needed(model: Path, tmp_path: Path) -> None:
    assert make(model, tmp_path, estimator="grpo").reference is None


def test_with_adapters_the_reference_is_the_base_model(model: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    adapters = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"])
    trainer = make(model, tmp_path, changes={"learning_rate": 0.1}, peft_config=adapters)
    trainer.train()
    prompts = [[5, 6, 7], [9, 10]] * 3
    torch.manual_seed(0)
    reference = trainer.reference._sample(prompts)
    torch.manual_seed(0)
    initial = AutoModelForCausalLM.from_pretrained(model)
    assert reference == sample(initial, prompts, eos_ids=trainer.eos_token_ids, max_new_tokens=12).ids
