"""explain: one row per response, literally."""

from dataclasses import dataclass

import pytest

import upside
from upside import Rollouts
from upside.sentences import apart, num


def test_rows_of_a_whole_chain():
    batch = Rollouts(
        rewards=[1, 0, None, 0, 1],
        groups=["a", "a", "a", "b", "b"],
        lengths=[3, 5, 4, 2, 9],
        entropy=[0.25, 0.5, 0.75, 1.0, 1.25],
        correct=[True, False, False, False, True],
        reference_rewards=[1, None, 0, 0.125, 0],
        metrics={"style": [1, 2, 3, 4, 5]},
    )
    rows = upside.explain("canon:mu=0.5 > reference_margin > adora_weight:weight_tds=0.5", batch)
    assert rows[0] == {
        "row": 0, "group": "a", "valid": True, "reward": 1, "length": 3, "entropy": 0.25, "correct": True,
        "reference_reward": 1, "style": 1, "metric": 0.25, "half": 0, "after_canon": 0.5, "margin": 0,
        "after_reference_margin": 0.5, "weight": 0.5, "tas": False, "success": True, "after_adora_weight": 0.25,
        "advantage": 0.25,
        "why": "In the lower-entropy half; the lower-entropy half earned 1 more (1 against 0); reward 1 against the "
        "higher-entropy half's 0 is +1, reward 1 against its own half's 1 is 0; mixed by mu: 0.5 x +1 + 0.5 x 0: +0.5; "
        "level with the reference's 1, no margin: +0.5; "
        "ADORA: longest success 3 <= mean failed length 5, weight 0.5: +0.25.",
    }  # fmt: skip
    assert rows[4]["after_reference_margin"] == pytest.approx(0.78)
    assert rows[4]["margin"] == pytest.approx(0.28)
    assert [row["half"] for row in rows] == [0, 1, 0, 0, 1]
    assert [row["weight"] for row in rows] == [0.5, 0.5, 0.5, 1, 1]
    assert [row["tas"] for row in rows] == [False, False, False, True, True]
    assert [row["advantage"] for row in rows] == pytest.approx([0.25, -0.25, 0, -0.625, 0.78])
    assert rows[2]["valid"] is False
    assert rows[2]["reward"] is None  # and not 0
    assert rows[1]["reference_reward"] is None
    assert rows[2]["why"] == "No reward could be computed: left out, advantage 0."


def test_the_last_column_is_what_is_trained():
    # trl#7298: the log shows other advantages than those trained on
    batch = Rollouts([1, 0, 0, 1, 1], list("aabbb"), lengths=[1, 2, 3, 4, 5])
    for spec in ("grpo", "adora", "canon:metric=length", "rloo > whiten"):
        trained = upside.estimator(spec)(batch).values.tolist()
        assert [row["advantage"] for row in upside.explain(spec, batch)] == pytest.approx(trained)


def test_columns_of_one_name_are_numbered():
    batch = Rollouts([1, 0], [7, 7], lengths=[4, 3], metrics={"weight": [70, 80]})
    rows = upside.explain("dr_grpo > whiten > whiten > adora_weight > adora_weight:weight_tas=3", batch)
    assert [rows[0][name] for name in ("weight", "weight_2", "weight_3")] == [70, 1, 3]
    assert {"after_whiten", "after_whiten_2", "after_adora_weight", "after_adora_weight_2"} <= set(rows[0])
    assert rows[0]["group"] == 7


def test_values_are_plain_python():
    rows = upside.explain("grpo", Rollouts([1, 0], [0, 0]))
    assert {type(value) for row in rows for value in row.values()} == {int, float, bool, str}
    assert set(rows[0]) == {
        "row",
        "group",
        "valid",
        "reward",
        "after_group_mean",
        "after_group_std",
        "advantage",
        "why",
    }
    assert "why" not in upside.explain("grpo", Rollouts([1, 0], [0, 0]), why=False)[0]


def test_errors_come_through():
    with pytest.raises(ValueError, match=r"needs Rollouts\.lengths"):
        upside.explain("adora", Rollouts([1, 0], [0, 0]))


def test_a_stage_without_a_sentence_gets_a_plain_one(names):
    @upside.register_stage("short_first", needs=["lengths"])
    def short_first(rollouts, advantages, *, bonus: float = 0.05):
        return advantages + bonus * (rollouts.lengths < 3)

    batch = Rollouts([1, 0], ["a", "a"], lengths=[2, 4])
    rows = upside.explain("dr_grpo > short_first", batch)
    assert [row["why"] for row in rows] == [
        "Reward 1 against the group's mean 0.5: +0.5; short_first: 0.5 -> +0.55.",
        "Reward 0 against the group's mean 0.5: -0.5.",
    ]
    assert upside.why("dr_grpo > short_first", batch) == {
        "a": "2 responses earned 0.5 on average; advantages -0.5 to +0.55."
    }


def test_a_stage_says_why(names):
    def reason(seen):
        cost = seen.options["cost"]
        return [f"{length:g} tokens at {cost}" if length > 2 else "" for length in seen.rollouts.lengths.tolist()]

    @upside.register_stage("priced", needs=["lengths"], why=reason)
    def priced(rollouts, advantages, *, cost: float = 0.25):
        return advantages - cost * rollouts.lengths * (rollouts.lengths > 2)

    batch = Rollouts([1, 0], [0, 0], lengths=[2, 4])
    rows = upside.explain("dr_grpo > priced:cost=0.5", batch)
    assert rows[0]["why"] == "Reward 1 against the group's mean 0.5: +0.5."
    assert rows[1]["why"] == "Reward 0 against the group's mean 0.5: -0.5; 4 tokens at 0.5: -2.5."

    @upside.register_stage("quiet", why=lambda seen: ["one"])
    def quiet(rollouts, advantages):
        return advantages

    with pytest.raises(ValueError, match="stage quiet: its `why` gave 1 clauses for 2 responses and 0 for 1 groups"):
        upside.explain("dr_grpo > quiet", batch)


def test_a_stage_that_is_a_dataclass_says_why(names):
    @upside.register_stage("doubled")
    @dataclass(frozen=True)
    class Doubled:
        by: float = 2.0

        def __call__(self, rollouts, advantages):
            return advantages * self.by

        def why(self, seen):
            return [f"times {self.by:g}"] * len(seen.before)

    assert upside.explain("dr_grpo > doubled:by=3", Rollouts([1, 0], [0, 0]))[1]["why"] == (
        "Reward 0 against the group's mean 0.5: -0.5; times 3: -1.5."
    )


def test_one_sentence_per_group_under_its_id():
    batch = Rollouts([1, 0, 1, 1], ["p", "p", "q", "q"])
    assert upside.why("dr_grpo", batch) == {
        "p": "2 responses earned 0.5 on average; advantages -0.5 to +0.5.",
        "q": "Both responses earned 1, nothing to compare; advantage 0.",
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (1 / 3, "0.3333"), (1e-9, "0"), (-2.0, "-2"), (123456.7, "123457"), (0.00012346, "0.0001235")],
)
def test_numbers_have_four_digits(value, text):
    assert num(value) == text


def test_numbers_that_differ_look_different():
    assert apart(1765.25, 1765) == ("1765.2", "1765")
    assert apart(2.0, 2.0) == ("2", "2")
    assert apart(1 / 3, 0.33333) == ("0.333333", "0.33333")
