"""The recipe's rewards as TRL calls them: ends, truncation, whole groups, how judgements ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import tiny
from datasets import Dataset

import upside
from upside.engines.trl import AdvantageTrainer
from upside.rewards import RewardError, Rewards, Scores, load_rewards
from upside.rewards.base import Completions
from upside.tasks import Problem
from upside.training.callbacks import Recorder
from upside.training.console import Console
from upside.training.folder import RunFolder
from upside.training.outcomes import NAMES, complaint, shares, totals, unjudged_example
from upside.training.recipe import load
from upside.training.run import train
from upside.training.scoring import TaskReward
from upside.verifiers import load_verifier

PROBLEMS = [Problem(f"p{i}", f"{i}+1", str(i + 1)) for i in range(3)]


class Watch:
    """A reward that keeps what it was given."""

    name = "watch"

    def __init__(self, **flags: bool) -> None:
        self.seen: list[Completions] = []
        self.__dict__.update(flags)

    def __call__(self, completions: Completions) -> Scores:
        self.seen.append(completions)
        return Scores([0.0] * len(completions))


def reward_of(*specs: Any, group_size: int = 2) -> TaskReward:
    return TaskReward(load_rewards(specs), PROBLEMS, {1, 0}, group_size)


def call(reward: TaskReward, texts: list[str], problem: list[int], **more: Any) -> list[float | None]:
    ids = more.pop("ids", [[5] * len(text) + [1] for text in texts])
    return reward(prompts=None, completions=texts, completion_ids=ids, problem=problem, **more)


def test_lengths_truncation_and_messages() -> None:
    watch = Watch()
    reward = TaskReward(Rewards([(watch, 1.0)]), PROBLEMS, {1, 0}, 2)
    chats = [[{"role": "assistant", "content": "#1"}], [{"role": "assistant", "content": "#2"}]]
    call(reward, chats, [2, 0], ids=[[7, 8], [7, 8, 1]])  # type: ignore[arg-type]
    (seen,) = watch.seen
    assert seen.responses == ["#1", "#2"]
    assert seen.problems == [PROBLEMS[2], PROBLEMS[0]]
    assert (seen.lengths, seen.truncated) == ([2, 3], [True, False])
    assert seen.groups is None  # nothing asked for them


def test_groups_are_the_occurrences_of_a_prompt() -> None:
    watch = Watch(needs_groups=True)
    reward = TaskReward(Rewards([(watch, 1.0)]), PROBLEMS, {1}, 2)
    call(reward, ["a"] * 6, [1, 1, 0, 0, 1, 1])  # one prompt twice in a batch: two groups
    assert watch.seen[0].groups == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("problem", [[0, 1, 1, 0], [0, 0, 1]])
def test_rows_out_of_step_are_refused(problem: list[int]) -> None:
    reward = reward_of("exact", "length_ratio")
    with pytest.raises(RewardError, match="no whole group of 2 responses to one prompt"):
        call(reward, ["a"] * len(problem), problem)


def test_the_length_baselines_of_canon_in_a_batch() -> None:
    reward = reward_of("exact", {"name": "length_ratio", "weight": 0.1}, group_size=2)
    scores = call(reward, ["#1", "no #1", "#2", "#1"], [0, 0, 1, 1])  # 3 and 6 tokens, 3 and 3
    assert scores == pytest.approx([1 + 0.1 * (4.5 / 3 - 1), 1 + 0.1 * (4.5 / 6 - 1), 1.0, 0.0])


def test_correctness_is_of_the_same_judgement() -> None:
    reward = reward_of("exact")
    texts = ["#1", "#9"]
    call(reward, texts, [0, 0])
    judged = reward._judged
    same: dict[str, Any] = {"completion_ids": [[1], [1]], "problem": [0, 0]}
    assert reward.correct(completions=texts, **same) == [True, False]
    assert reward._judged is judged
    assert reward.correct(completions=["#9", "#1"], **same) == [False, True]


def test_outcomes_are_logged_apart() -> None:
    """limit-of-RLVR#8: timeout, unparsed and wrong have counters of their own."""
    metrics: dict[str, float] = {}
    extras: dict[str, list[Any]] = {}
    call(
        reward_of("exact"), ["#1", "#9", "", ""], [0] * 4, log_metric=metrics.__setitem__, log_extra=extras.__setitem__
    )
    assert extras == {"outcome": ["correct", "wrong", "unparsed", "unparsed"]}
    expected = {"correct": 0.25, "wrong": 0.25, "unparsed": 0.5, "timeout": 0.0, "error": 0.0}
    assert metrics == {f"verify/{name}": share for name, share in expected.items()}


def test_a_reward_without_a_judge_logs_no_shares() -> None:
    metrics: dict[str, float] = {}
    call(reward_of("format"), ["#1", "#9"], [0, 0], log_metric=metrics.__setitem__)
    assert metrics == {}


def test_counting() -> None:
    steps = [{"step": 1, **shares(["correct", "timeout", "wrong", None])}, {"step": 2, **shares(["error"] * 4)}]
    counts = totals(steps, 4)
    assert counts == {"correct": 1, "wrong": 1, "unparsed": 0, "timeout": 1, "error": 4}
    assert complaint(counts, 8) == "5 of 8 responses could not be judged (timeout 1, error 4)"
    assert complaint({"correct": 3, "unparsed": 1}, 4) is None
    assert totals([{"step": 1, "reward": 0.0}], 4) == {}


def test_two_processes_score_as_one(model: Path, tmp_path: Path) -> None:
    """trl#3896, trl#5030: six rows a process, so the second of three groups of four lies on both; AAPO's reference
    responses, every second call, are scored the same way."""
    specs = ["exact", {"name": "length_ratio", "weight": 0.5}]
    script = Path(__file__).with_name("two_ranks.py")
    paths = os.pathsep.join([str(Path(tiny.__file__).parent), os.environ.get("PYTHONPATH", "")])
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [*launcher, str(script), str(model), str(tmp_path), json.dumps(specs)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": paths},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]
    assert [len(calls) for calls in ranks] == [4, 4]  # policy, reference, policy, reference
    problems = [Problem(f"p{i}", f"{i}+{i}=", str(2 * i)) for i in range(10)]
    alone = TaskReward(load_rewards(specs), problems, tiny.ENDS, 4)
    local = 0
    for first, second in zip(*ranks, strict=True):
        whole = {key: first[key] + second[key] for key in first}
        scores = alone(completions=whole["texts"], completion_ids=whole["ids"], problem=whole["problem"])
        assert scores == whole["scores"]
        assert len(set(scores)) > 3
        part = whole["ids"][4:6]
        local += scores[4] != pytest.approx(0.5 * (sum(map(len, part)) / 2 / len(part[0]) - 1))
    assert local > 0  # within one process alone the straddling group would have given something else


def test_outcomes_reach_log_rollouts_console_and_summary(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every fourth response is judged as if it were a power tower, by the real checker with its real timeout.

    trl#5902, trl#5775, trl#6426, trl#6429: its row leaves the statistics and gets advantage 0."""
    checker = load_verifier("math", timeout=0.5, workers=1)

    class Judge:
        name = "towers"
        judges = True

        def __call__(self, completions: Completions) -> Scores:
            said = ["9^{9^{9^9}}" if row % 4 == 3 else "7" if row % 4 else "8" for row in range(len(completions))]
            found = checker(["7"] * len(said), [rf"\boxed{{{answer}}}" for answer in said])
            return Scores([v.score for v in found], [v.correct for v in found], [v.outcome for v in found])

    recipe = load(
        None, ["steps=2", "group_size=4", "prompts_per_step=4", f"output={tmp_path / 'run'}", f"model={model}"]
    )
    folder = RunFolder.open_for(recipe)
    recorder = Recorder(folder, Console(), upside.estimator("grpo"), updates=1)
    reward = TaskReward(Rewards([(Judge(), 1.0)]), PROBLEMS, tiny.ENDS, 4)
    trainer = AdvantageTrainer(
        model=str(model),
        args=tiny.config(tmp_path / "checkpoints", max_steps=2),
        reward_funcs=[reward],
        train_dataset=Dataset.from_list([{"prompt": PROBLEMS[0].prompt, "problem": 0}] * 8),
        estimator=recorder.estimator,
        correctness=reward.correct,
        on_rollouts=recorder.keep,
        callbacks=[recorder],
    )
    trainer.train()
    for row in folder.metrics():
        assert [row[f"verify/{name}"] for name in NAMES] == [0.5, 0.25, 0.0, 0.25, 0.0]
        assert row["accuracy"] == pytest.approx(2 / 3)  # of the twelve that were judged
        assert row["reward"] == pytest.approx(2 / 3)  # a row without a score is not a zero
    table = pyarrow.parquet.read_table(folder.rollouts).to_pydict()
    assert table["outcome"] == ["wrong", "correct", "correct", "timeout"] * 8
    assert table["correct"] == [False, True, True, None] * 8
    assert [a for a, o in zip(table["advantage"], table["outcome"], strict=True) if o == "timeout"] == [0.0] * 8
    # the mean of a group is that of its three judged rows
    assert table["advantage"][1] == pytest.approx((1 - 2 / 3) / (1 / 3) ** 0.5, abs=1e-3)
    said = capsys.readouterr().out
    assert said.count("4 of 16 responses could not be judged (timeout 4); first: ") == 1
    assert "left out of the step" in said
    assert "timeout 25.0%" in said
    assert totals(folder.metrics(), 16) == {"correct": 16, "wrong": 8, "unparsed": 0, "timeout": 8, "error": 0}
    example = unjudged_example(folder.rollouts)
    assert example == {"step": 1, "prompt": "0+1", "response": table["response"][3], "outcome": "timeout"}


@pytest.mark.usefixtures("workplace")
def test_a_run_counts_outcomes_in_its_summary() -> None:
    summary = train(load("small.yaml", ["rewards=[exact]", "steps=2", "eval.problems=0"]))
    counts = summary["outcomes"]
    assert sum(counts.values()) == 2 * 16
    assert counts["timeout"] == counts["error"] == 0
    assert "unjudged" not in summary
    outcomes = pyarrow.parquet.read_table(Path("run") / "rollouts")["outcome"].to_pylist()
    assert {name: outcomes.count(name) for name in counts} == counts
    for row in RunFolder(Path("run")).metrics():
        assert sum(row[f"verify/{name}"] for name in NAMES) == pytest.approx(1)


@pytest.mark.parametrize(("option", "score"), [("invalid", None), ("wrong", 0.0)])
def test_what_cannot_be_judged_in_time_is_invalid_or_wrong_by_option(option: str, score: float | None) -> None:
    """RL#2207, Math-Verify#65: never a silent 0; the timeout is counted either way."""
    logged: dict[str, list[Any]] = {}
    reward = reward_of(
        {"name": "math", "timeout": 0.5, "workers": 1, "on_failure": option}, {"name": "format", "weight": 2}
    )
    texts = [r"\boxed{9^{9^{9^9}}}", "<think>1</think> \\boxed{1}", "<think>1</think> \\boxed{9^{9^{9^9}}}", ""]
    scores = call(reward, texts, [0] * 4, log_extra=logged.__setitem__)
    assert logged["outcome"] == ["timeout", "correct", "timeout", "unparsed"]
    shaped = None if score is None else score + 2
    assert scores == [score, 3.0, shaped, 0.0]
