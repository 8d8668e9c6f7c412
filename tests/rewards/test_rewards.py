"""Rewards by name: judges, user functions that misbehave, weighted sums, validity."""

import math
from dataclasses import replace

import pytest
import torch

from upside.rewards import Completions, RewardError, Scores, check_rewards, load_reward, load_rewards
from upside.tasks import Problem, Verdict, load_task


def batch(*responses: str, lengths=None, truncated=None) -> Completions:
    n = len(responses)
    return Completions(
        [Problem(f"p{i}", f"{i}+1", str(i + 1)) for i in range(n)],
        responses,
        lengths or [len(r) for r in responses],
        truncated or [False] * n,
    )


class Judge:
    """A task whose verdict is written in the response."""

    name = "judge"

    def problems(self, split, count=None, seed=0):
        return []

    def verify(self, problem, response):
        if response == "crash":
            raise ZeroDivisionError("oops")
        score = None if response == "none" else float(response)
        return Verdict(score, None if score is None else score > 0.5)


# What the user functions under test look like; found as python:test_rewards:NAME.
def count_letters(responses, scale=1.0):
    return [scale * len(r) for r in responses]


def everything(problems, responses, lengths, truncated):
    return [len(p.prompt) + n + 10 * t for p, n, t in zip(problems, lengths, truncated, strict=True)]


def any_keywords(**batch):
    return [0.5] * len(batch["responses"])


def third_raises(responses):
    return [1 / (r != "bad") for r in responses]


def too_few(responses):
    return [1.0]


def a_string(responses):
    return "1" * len(responses)


def a_number(responses):
    return 1.0


def words(responses):
    return ["good"] * len(responses)


def not_finite(responses):
    return [math.nan, math.inf, None, 1.0][: len(responses)]


def huge(responses):
    return [10**400] * len(responses)


def a_tensor(responses):
    return torch.tensor([0.5, float("nan")])[: len(responses)]


def scalars(responses):
    return [torch.tensor(0.25), True][: len(responses)]


def wants_more(responses, temperature):
    return []


def no_responses(problems):
    return []


def rank_in_group(responses, groups):
    return [sum(g == other for other in groups) for g in groups]


def twice_if_right(responses, correct):
    return [None if c is None else 2.0 * c for c in correct]


def user(name, **options):
    return load_reward(f"python:{__name__}:{name}", **options)


def test_verdict_is_the_tasks_own_score():
    task = load_task("arithmetic")
    problems = task.problems("train", 2)
    rewards = load_rewards(["verdict"], task)
    judged = rewards(Completions(problems, [f"#{problems[0].answer}", "no"], [3, 2], [False, False]))
    assert judged.score == [1.0, 0.0]
    assert judged.correct == [True, False]
    assert judged.valid == [True, True]
    assert judged.parts == {"verdict": [1.0, 0.0]}


def test_a_crashing_verifier_names_task_row_and_problem():
    with pytest.raises(RewardError, match=r"task 'judge' failed on row 1 \(problem 'p1'\): ZeroDivisionError"):
        load_rewards(["verdict"], Judge())(batch("1", "crash"))


def test_user_functions_get_what_they_name():
    assert user("count_letters")(batch("a", "bcd")).values == [1.0, 3.0]
    assert user("count_letters", scale=2)(batch("bcd")).values == [6.0]
    assert user("everything")(batch("abc", lengths=[7], truncated=[True])).values == [20.0]
    assert user("any_keywords")(batch("a")).values == [0.5]
    assert user("scalars")(batch("a", "b")).values == [0.25, 1.0]


def test_user_functions_may_ask_for_groups_and_correctness():
    asked = user("rank_in_group")
    assert asked.needs_groups
    assert not asked.needs_correct
    whole = replace(batch("a", "b", "c"), groups=[7, 8, 7], correct=[True, None, False])
    assert asked(whole).values == [2.0, 1.0, 2.0]
    assert user("twice_if_right")(whole).values == [2.0, None, 0.0]
    assert user("any_keywords")(whole).values == [0.5] * 3
    assert not user("any_keywords").needs_groups
    with pytest.raises(RewardError, match=r"rank_in_group' compares the responses of a group.*Completions\(groups="):
        asked(batch("a"))
    with pytest.raises(RewardError, match=r"twice_if_right' needs to know which answers are right"):
        user("twice_if_right")(batch("a"))


def test_correctness_reaches_a_user_function_whatever_the_order_of_the_list():
    rewards = load_rewards([f"python:{__name__}:twice_if_right", "verdict"], Judge())
    assert rewards(batch("1", "0", "none")).score == [3.0, 0.0, None]


def test_a_raising_user_function_names_itself_and_the_row():
    message = r"python:.*third_raises' raised ZeroDivisionError: .* on row 2 \(problem 'p2'\), response 'bad'"
    with pytest.raises(RewardError, match=message) as caught:
        user("third_raises")(batch("a", "b", "bad", "bad"))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "return None" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("too_few", "returned 1 scores for 3 responses"),
        ("a_string", "returned str; return a list of 3"),
        ("a_number", "returned float; return a list of 3"),
        ("words", r"returned 'good' \(str\) for row 0"),
    ],
)
def test_wrong_returns_are_named(name, message):
    with pytest.raises(RewardError, match=message):
        user(name)(batch("a", "b", "c"))


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("python:nowhere_at_all:f", {}, "importing module 'nowhere_at_all' failed"),
        ("python:math", {}, "write python:module:function"),
        (f"python:{__name__}:count_leters", {}, "no function 'count_leters'; did you mean 'count_letters'"),
        (f"python:{__name__}:count_letters", {"scal": 2}, "no option 'scal'; did you mean 'scale'"),
        (f"python:{__name__}:wants_more", {}, "nothing gives 'temperature'"),
        (f"python:{__name__}:no_responses", {}, "must include 'responses'"),
        ("verdit", {}, "did you mean 'verdict'"),
        ("verdict", {}, "needs a task"),
        ("overlong", {}, "needs max_length, cache"),
        ("overlong", {"max_lenght": 3, "cache": 1}, "no option 'max_lenght'; did you mean 'max_length'"),
        ("format", {"answer": "box"}, "answer must be any, boxed, tag or hash"),
        ("format", {"think": "yes"}, "think must be required"),
        ("format", {"compat": "aapo", "answer": "boxed"}, "a rule of its own"),
        ("format", {"compat": "aap"}, "compat must be aapo"),
        ("exact", {"timeout": 3}, "reward 'exact': verifier 'exact' has no option 'timeout'"),
        ("kk", {"scale": "adorra"}, "reward 'kk': verifier 'kk': scale must be adora or binary"),
        ("cosine", {"unit": "words"}, "unit must be characters or tokens"),
        ("cosine", {"max_length": 0}, "max_length must be at least 1"),
        ("cosine", {"max_length": 1.5}, "max_length must be a whole number of characters"),
        ("cosine", {"right_long": math.nan}, "right_long must be a finite number"),
        ("cosine", {"cap": 1}, "cap must be true or false"),
        ("overlong", {"max_length": "96", "cache": 16}, "max_length must be a whole number of tokens, got '96'"),
        ("overlong", {"max_length": 8, "cache": 9}, "cache must be in 1"),
        ("overlong", {"max_length": 8, "cache": 0}, "cache must be in 1"),
    ],
)
def test_setup_errors(path, options, message):
    with pytest.raises(RewardError, match=message):
        load_reward(path, **options)


def test_nan_and_none_are_invalid_never_zero():
    rewards = load_rewards([f"python:{__name__}:not_finite"])
    with pytest.warns(UserWarning, match="2 NaN or infinite scores"):
        judged = rewards(batch("a", "b", "c", "d"))
    assert judged.score == [None, None, None, 1.0]
    assert judged.valid == [False, False, False, True]
    assert judged.correct == [None] * 4
    assert judged.not_finite == 2  # trl#5902, trl#6427, RL#2207: no score is not the score 0
    with pytest.warns(UserWarning, match="1 NaN"):
        assert load_rewards([f"python:{__name__}:a_tensor"])(batch("a", "b")).score == [0.5, None]


def test_a_number_too_large_for_a_float_is_no_score():
    with pytest.warns(UserWarning, match="1 NaN or infinite"):
        assert load_rewards([f"python:{__name__}:huge"])(batch("a")).valid == [False]


@pytest.mark.parametrize("returned", [1.0, None, (1.0, True), Verdict("1", True)])
def test_a_task_that_returns_no_verdict_is_named(returned):
    task = Judge()
    task.verify = lambda problem, response: returned
    with pytest.raises(RewardError, match=r"task 'judge' returned .* for problem 'p0'; return Verdict"):
        load_rewards(["verdict"], task)(batch("a"))


def test_an_empty_gold_answer_is_an_error_for_every_verifier():
    for name in ("exact", "math", "kk", "geometry"):
        judged = load_reward(name)(Completions([Problem("p", "q", "")], [r"\boxed{x}"], [1], [False]))
        assert (judged.values, judged.correct, judged.outcomes) == ([None], [None], ["error"])


def test_weights_combine_scores_only():
    specs = ["verdict", {"name": "overlong", "weight": 0.5, "max_length": 20, "cache": 10}]
    judged = load_rewards(specs, Judge())(batch("1", "1", "0", "none", lengths=[10, 20, 15, 20]))
    assert judged.score == [1.0, 0.5, -0.25, None]
    assert judged.correct == [True, True, False, None]
    assert judged.valid == [True, True, True, False]
    assert judged.parts["overlong"] == [0.0, -1.0, -0.5, -1.0]


def test_verifiers_judge_against_the_gold_whatever_the_task_says():
    judged = load_rewards(["exact"], Judge())(batch("1", "the sum is #2", "4", ""))
    assert judged.score == [1.0, 1.0, 0.0, 0.0]
    assert judged.correct == [True, True, False, False]
    assert judged.outcomes == ["correct", "correct", "wrong", "unparsed"]  # limit-of-RLVR#8: counted apart


def test_a_judge_of_weight_0_gives_correctness_and_validity_alone():
    specs = [{"name": "verdict", "weight": 0}, {"name": "cosine", "weight": 2.0, "max_length": 4}]
    judged = load_rewards(specs, Judge())(batch("1", "0", "none"))
    wave = math.sqrt(0.5)  # cos(pi / 4)
    assert judged.score[:2] == pytest.approx([2 * (0.75 + 0.25 * wave), 2 * (-0.25 + 0.25 * wave)])
    assert judged.score[2] is None
    assert judged.correct == [True, False, None]
    assert judged.valid == [True, True, False]


def test_a_silent_part_leaves_the_others():
    specs = [{"name": "overlong", "max_length": 20, "cache": 10}, f"python:{__name__}:not_finite"]
    with pytest.warns(UserWarning, match="NaN"):
        judged = load_rewards(specs)(batch("a", "b", "c", "d", lengths=[15, 0, 20, 0]))
    assert judged.score == [-0.5, 0.0, -1.0, 1.0]


def test_combination_errors():
    with pytest.raises(RewardError, match="no rewards given"):
        load_rewards([])
    with pytest.raises(RewardError, match=r"rewards: expected a list, got 'format'; write \['format'\]"):
        load_rewards("format")
    with pytest.raises(RewardError, match=r"rewards\[0\] has no name"):
        load_rewards([3])
    with pytest.raises(RewardError, match="named twice"):
        load_rewards(["format", "format"])
    with pytest.raises(RewardError, match=r"more than one reward judges correctness \(verdict and exact\)"):
        load_rewards(["verdict", "exact"], Judge())
    with pytest.raises(RewardError, match=r"'cosine' needs to know which answers are right.*with weight 0"):
        load_rewards(["format", "cosine"])
    with pytest.raises(RewardError, match=r"rewards\[0\] has no name"):
        load_rewards([{"weight": 1}])
    with pytest.raises(RewardError, match="weight must be a finite number, got nan"):
        load_rewards([{"name": "format", "weight": math.nan}])
    with pytest.raises(ValueError, match="differ in length"):
        Completions([], ["a"], [1], [False])


def test_a_reward_of_ones_own_class():
    class Constant:
        name = "constant"

        def __call__(self, completions):
            return Scores([math.nan] * len(completions))

    from upside.rewards import Rewards

    with pytest.warns(UserWarning, match="from constant"):
        assert Rewards([(Constant(), 1.0)])(batch("a")).valid == [False]


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (["verdit"], "did you mean 'verdict'"),
        ([{"name": "verdict", "scale": 2}], "reward 'verdict' has no option 'scale'"),
        ([{"name": "kk", "scael": "adora"}], "no option 'scael'; did you mean 'scale'"),
        (["cosine", "python:not.imported:here"], "'cosine' needs to know"),
        (["verdict", "kk"], r"\(verdict and kk\)"),
        ("verdict", r"write \['verdict'\]"),
        ([], "no rewards given"),
        ([{"name": "verdict", 1: 2}], "an option that is no text"),
    ],
)
def test_a_list_can_be_checked_without_a_task_or_user_code(specs, message):
    with pytest.raises(RewardError, match=message):
        check_rewards(specs)


def test_a_good_list_passes_the_check():
    check_rewards(["python:not.imported:here", "cosine", "verdict", {"name": "format", "weight": 0.5}])


def test_a_part_that_compares_groups_sees_all_rows_and_gives_back_its_own():
    """trl#3896: what a process holds is a part of the batch; its groups go on elsewhere."""
    rewards = load_rewards(["verdict", f"python:{__name__}:rank_in_group", "length_ratio"], Judge())
    assert rewards.needs_groups
    here = batch("1", "none", lengths=[10, 30])
    seen = []

    def whole(completions):
        seen.append(completions.correct)
        rows = {"groups": [0, 0, 0, 1], "correct": [True, *completions.correct, None]}
        return replace(batch("1", "1", "none", "1", lengths=[30, 10, 30, 5]), **rows), slice(1, 3)

    judged = rewards(here, whole)
    assert seen == [[True, None], [True, None]]
    assert judged.parts[f"python:{__name__}:rank_in_group"] == [3.0, 3.0]
    assert judged.parts["length_ratio"] == [20 / 10 - 1, None]  # the unknown row stays out of the mean
    assert judged.score == [1.0 + 3.0 + 1.0, None]


@pytest.mark.parametrize("name", ["exact", "math", "kk", "geometry", "format"])
def test_no_reward_runs_what_a_response_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    order = "__import__('os').system('touch ran')"
    said = [
        rf"\boxed{{{order}}}",
        f"<think>a</think><answer>{order}</answer>",
        f"#### {order}",
        f"$(touch ran) `{order}`",
    ]
    golds = {"kk": "Ann is a knight"}
    problems = [Problem("p", "q", golds.get(name, "1"))] * len(said)
    judged = load_rewards([name])(Completions(problems, said, [9] * len(said), [False] * len(said)))
    assert True not in judged.correct
    assert not list(tmp_path.iterdir())
