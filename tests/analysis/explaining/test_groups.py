"""explain_groups on small logs that are written out."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import pytest

from upside.analysis import explain_groups

LOG = [
    {"step": 1, "prompt": "easy?", "rewards": [1.0, 1.0], "correct": [True, True]},
    {"step": 1, "prompt": "hard?", "rewards": [0.0, 0.0], "correct": [False, False]},
    {"step": 1, "prompt": "alone?", "rewards": [1.0], "correct": [True]},
    {"step": 2, "prompt": "MIXED?", "rewards": [1.0, 0.0, None], "correct": [True, False, None]},
    {"step": 2, "prompt": "cut?", "rewards": [1.0, 0.0, 0.0, 0.0], "truncated": [False, False, True, False]},
]


def tags(block) -> list[set[str]]:
    return [set(group["tags"]) for group in block.groups]


def test_a_group_in_full(log_of) -> None:
    block = explain_groups(log_of(LOG), "grpo:eps=0", step=2, group=0)
    assert block.source == "a/log"
    assert block.total == 1
    assert [column.name for column in block.columns] == [
        "reward", "correct", "length", "after group_mean", "advantage",
    ]  # fmt: skip
    assert all(column.help for column in block.columns)
    (group,) = block.groups
    assert (group["step"], group["group"], group["prompt"]) == (2, 0, "MIXED?")
    assert group["sentence"] == (
        "2 responses earned 0.5 on average; deviation 0.7071; 1 response without a reward left out; "
        "advantages -0.7071 to +0.7071."
    )
    first, second, third = group["responses"]
    assert first["text"] == "answer 3.0"
    assert {name: first["values"][name] for name in ("reward", "correct", "length")} == {
        "reward": 1, "correct": True, "length": 10,
    }  # fmt: skip
    assert first["values"]["after group_mean"] == 0.5
    assert second["values"]["advantage"] == pytest.approx(-(0.5**0.5))
    assert (
        second["why"]
        == "Reward 0 against the group's mean 0.5: -0.5; divided by the group's deviation 0.7071: -0.7071."
    )
    assert third["values"]["reward"] is None
    assert third["why"] == "No reward could be computed: left out, advantage 0."


def test_kinds_that_the_rewards_tell(log_of) -> None:
    assert tags(explain_groups(log_of(LOG))) == [
        {"dead", "too_easy"}, {"dead", "too_hard"}, {"singleton"}, {"mixed", "invalid"},
        {"mixed", "truncated", "extreme"},
    ]  # fmt: skip


def test_kinds_that_the_estimator_tells(log_of) -> None:
    rewards = [
        {"rewards": [1.0, 1.0], "reference_reward": [0.0, 1.0]},  # dead, and yet an advantage
        {"rewards": [1.0, 0.9, 0.0], "reference_reward": [1.0, 1.0, 1.0]},
        {"rewards": [0.6, 0.5, 0.5], "reference_reward": [1.0, 0.0, 0.5]},  # above its group, below the reference
    ]
    block = explain_groups(log_of(rewards), "dr_grpo > reference_margin > adora_weight:weight_tas=3")
    assert tags(block) == [
        {"dead", "too_easy", "rescued", "attenuated"},
        {"mixed", "extreme", "attenuated"},
        {"mixed", "flipped", "attenuated"},
    ]
    limited = explain_groups(log_of([*rewards, *rewards]), "dr_grpo > reference_margin", kind="flipped", limit=1)
    assert (limited.total, limited.note.rpartition("Shown: ")[2]) == (2, "1 of 2 groups, the most telling.")
    longer = [{"rewards": [1.0, 0.0], "length": [20.0, 10.0]}]
    assert tags(explain_groups(log_of(longer), "adora_amplify")) == [{"mixed", "extreme", "amplified"}]


def test_numbers_of_the_stages(log_of) -> None:
    log = log_of([{"rewards": [1.0, 0.0, 0.0, 0.0], "reference_reward": [0.0, 0.0, 1.0, None],
                   "entropy": [0.1, 0.2, 0.2, 0.4]}])  # fmt: skip
    block = explain_groups(log, "canon_inter > reference_margin > adora_weight")
    values = [response["values"] for response in block.groups[0]["responses"]]
    assert [v["half"] for v in values] == ["low", "both", "both", "high"]
    assert [v["margin"] for v in values] == [pytest.approx(0.28), 0, pytest.approx(-0.2), 0]
    assert [v["weight"] for v in values] == [0.1] * 4
    assert [v["reference reward"] for v in values] == [0, 0, 1, None]
    assert [column.name for column in block.columns] == [
        "reward", "length", "entropy", "reference reward", "half", "after canon", "margin", "after reference_margin",
        "weight", "advantage",
    ]  # fmt: skip


def test_stages_of_one_name_keep_a_column_each(log_of) -> None:
    block = explain_groups(log_of([{"rewards": [1.0, 0.0]}]), "dr_grpo > adora_weight > adora_weight:weight_tds=0.5")
    names = [column.name for column in block.columns]
    assert names == ["reward", "length", "after group_mean", "weight", "after adora_weight", "weight 2", "advantage"]
    values = block.groups[0]["responses"][0]["values"]
    assert (values["weight"], values["weight 2"]) == (0.1, 0.5)


def test_the_run_names_its_estimator(log_of) -> None:
    log = log_of(LOG, {"estimator": "rloo"})
    assert explain_groups(log).note == "Explained by rloo."
    assert "the others' mean" in explain_groups(log, step=2).groups[0]["responses"][0]["why"]
    assert explain_groups(log_of(LOG)).note == "Explained by grpo: the log names no estimator."
    assert explain_groups(log, "opo").note == "Explained by opo."


def test_a_run_whose_estimator_is_not_there_is_named(log_of) -> None:
    log = log_of([{"rewards": [1.0, 0.0]}], recipe={"estimator": "grpo > of_somebody"})
    with pytest.raises(ValueError, match=r"^a/log: its estimator cannot be built here \(.*of_somebody.*name another$"):
        explain_groups(log)
    assert len(explain_groups(log, "rloo").groups) == 1


def test_other_logged_advantages_are_told(log_of) -> None:
    logged = {"rewards": [1.0, 0.0], "advantage": [0.5, -0.7]}
    note = explain_groups(log_of([logged], {"estimator": "dr_grpo"})).note
    assert note.endswith("The log has another advantage for 1 of 2 responses, by up to 0.2.")
    assert "another" not in explain_groups(log_of([logged]), "grpo").note  # asked for another estimator


def test_a_stage_that_looks_at_the_batch_sees_the_whole_step(log_of) -> None:
    """Rewards 1, 0 | 0, 0 and the mean 0.25 of all four."""
    log = log_of([{"rewards": [1.0, 0.0]}, {"rewards": [0.0, 0.0]}, {"step": 2, "rewards": [1.0, 1.0]}])
    block = explain_groups(log, "batch_baseline", step=1, group=1)
    assert [r["values"]["advantage"] for r in block.groups[0]["responses"]] == [-0.25, -0.25]


def test_rows_in_any_order_and_groups_by_first_row(log_of) -> None:
    log = log_of([{"step": 2, "prompt": "b", "rewards": [1.0, 0.0]}, {"step": 1, "prompt": "a", "rewards": [0.0, 1.0]}])
    block = explain_groups(log, "dr_grpo")
    assert [(g["step"], g["group"], g["prompt"]) for g in block.groups] == [(1, 0, "a"), (2, 0, "b")]
    assert [r["values"]["advantage"] for r in block.groups[1]["responses"]] == [0.5, -0.5]


@pytest.mark.parametrize(
    ("chosen", "prompts"),
    [
        ({"step": 1}, ["easy?", "hard?", "alone?"]),
        ({"group": 1}, ["cut?"]),  # of the last step
        ({"prompt": "mixed"}, ["MIXED?"]),
        ({"kind": "dead"}, ["easy?", "hard?"]),
        ({"kind": "extreme"}, ["cut?"]),
        ({"limit": 2}, ["MIXED?", "cut?"]),  # the rarest kinds first
        ({"step": 1, "kind": "too_hard"}, ["hard?"]),
    ],
)
def test_which_groups(log_of, chosen, prompts) -> None:
    assert [group["prompt"] for group in explain_groups(log_of(LOG), **chosen).groups] == prompts


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"step": 3}, "a/log has no step 3; it has 2, 1 to 2"),
        ({"step": 1, "group": 3}, "a/log: step 1 has no group 3; it has 0 to 2"),
        ({"prompt": "nowhere"}, "a/log: no prompt has 'nowhere'"),
        ({"kind": "odd"}, "kind 'odd': there are flipped, rescued"),
        ({"step": 2, "kind": "dead"}, "no group is dead"),
        ({"kind": "flipped"}, "no group of 2 steps is flipped"),
        ({"limit": 0}, "limit=0 must be at least 1"),
        ({"estimator": "canon"}, r"a/log, step 1, by canon: canon needs Rollouts\.entropy"),
        ({"estimator": "grp0"}, "Did you mean 'grpo'"),
    ],
)
def test_what_cannot_be_shown_is_an_error(log_of, chosen, message) -> None:
    with pytest.raises(ValueError, match=message):
        explain_groups(log_of(LOG), **chosen)


def test_a_log_without_responses(log_of) -> None:
    log = log_of(LOG)
    with pytest.raises(ValueError, match="a/log holds no responses"):
        explain_groups(type(log)("a/log", "table", log.table.slice(0, 0)))


def test_a_limited_choice_spreads_over_steps_and_kinds(log_of) -> None:
    groups = [{"step": step, "rewards": r} for step in range(1, 65) for r in ([1.0, 1.0], [0.0, 0.0], [1.0, 0.0])]
    block = explain_groups(log_of(groups), limit=24)
    assert len(block.groups) == 24
    assert block.total == 192
    assert "24 of 192 groups" in block.note
    kinds = Counter(tag for group in block.groups for tag in group["tags"])
    assert min(kinds["too_easy"], kinds["too_hard"], kinds["mixed"]) >= 5
    steps = [group["step"] for group in block.groups]
    assert steps == sorted(steps)
    assert steps[0] <= 8
    assert steps[-1] >= 56
    assert max(b - a for a, b in itertools.pairwise(steps)) <= 16


def test_a_long_response_is_cut_and_the_whole_is_json(log_of) -> None:
    texts = ["x" * 100_000 + "\\boxed{7}", "</table><script>\udcff\x1b[31m"]
    log = log_of([{"rewards": [1.0, 0.0]}])
    log = type(log)("a/log", "table", log.table)
    object.__setattr__(log, "texts", lambda name, rows: texts if name == "response" else ["q"])
    first, second = explain_groups(log, characters=2_000).groups[0]["responses"]
    assert len(first["text"]) < 2_100
    assert first["text"].endswith("xxx\\boxed{7}")
    assert " more characters … x" in first["text"]
    assert second["text"] == "</table><script>\N{REPLACEMENT CHARACTER}\x1b[31m"
    assert json.dumps(explain_groups(log).groups, allow_nan=False).encode()
