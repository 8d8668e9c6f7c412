"""Rewards: values by hand, adversarial format fixtures, user functions that misbehave, weighted sums."""

import math

import pytest
import torch

from upside.rewards import Completions, RewardError, Scores, load_reward, load_rewards
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


def a_tensor(responses):
    return torch.tensor([0.5, float("nan")])[: len(responses)]


def scalars(responses):
    return [torch.tensor(0.25), True][: len(responses)]


def wants_more(responses, temperature):
    return []


def no_responses(problems):
    return []


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


def test_overlong_is_equation_13_of_dapo():
    reward = load_reward("overlong", max_length=20, cache=8)
    scores = reward(batch(*"abcdef", lengths=[0, 12, 14, 16, 20, 25]))
    assert scores.values == [0.0, 0.0, -0.25, -0.5, -1.0, -1.0]
    assert scores.correct is None
    published = load_reward("overlong", max_length=20480, cache=4096)
    assert published(batch("a", lengths=[18432])).values == [-0.5]


@pytest.mark.parametrize("options", [{"max_length": 8, "cache": 9}, {"max_length": 8, "cache": 0}])
def test_overlong_bounds(options):
    with pytest.raises(RewardError, match="cache must be in 1"):
        load_reward("overlong", **options)


def test_overlong_takes_whole_numbers():
    with pytest.raises(RewardError, match="reward 'overlong': max_length must be a whole number of tokens, got '96'"):
        load_reward("overlong", max_length="96", cache=16)


@pytest.mark.parametrize(
    ("response", "options", "good"),
    [
        ("2+2=4 #4", {}, True),
        ("#### 4", {}, True),
        (r"so \boxed{4}.", {}, True),
        ("<think>2+2</think>\n<answer>4</answer>", {}, True),
        ("<think>2+2</think>#4", {"think": "required"}, True),
        ("2+2</think>#4", {"think": "opened"}, True),
        ("", {}, False),
        ("4", {}, False),
        ("#", {}, False),
        (r"\boxed{}", {}, False),
        (r"\boxed{ } #", {}, False),
        (r"\boxed{ } and more", {}, False),
        (r"\boxed{4", {}, False),
        ("#4 #4", {}, False),
        (r"\boxed{4} #4", {}, False),
        ("<answer>4", {}, False),
        ("<answer> </answer>", {}, False),
        ("<answer>4</answer></answer>", {}, False),
        ("<answer>4</answer><answer>4</answer>", {}, False),
        ("<think></think>#4", {}, False),
        ("<think> \n </think>#4", {}, False),
        ("<think>a</think><think>b</think>#4", {}, False),
        ("<think><think>a</think>#4", {}, False),
        ("<think>a#4", {}, False),
        ("a</think>#4", {}, False),
        ("</think>a<think>#4", {}, False),
        ("<think>a #4</think>", {}, False),
        ("<think>a #4</think>#4", {}, False),
        ("before <think>a</think>#4", {}, False),
        ("#4", {"think": "required"}, False),
        ("<think>a</think>#4", {"think": "none"}, False),
        ("<think>a</think>#4", {"think": "opened"}, False),
        ("#4", {"answer": "boxed"}, False),
        (r"\boxed{4} costs #1", {"answer": "boxed"}, True),
        ("<think>" * 20_000, {}, False),
        (r"\boxed{" * 20_000, {}, False),
        ("#" * 100_000, {}, False),
        ("\ud800 #4", {}, True),
    ],
)
def test_format(response, options, good):
    assert load_reward("format", **options)(batch(response)).values == [float(good)]


def test_user_functions_get_what_they_name():
    assert user("count_letters")(batch("a", "bcd")).values == [1.0, 3.0]
    assert user("count_letters", scale=2)(batch("bcd")).values == [6.0]
    assert user("everything")(batch("abc", lengths=[7], truncated=[True])).values == [20.0]
    assert user("any_keywords")(batch("a")).values == [0.5]
    assert user("scalars")(batch("a", "b")).values == [0.25, 1.0]


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
        ("format", {"think": "yes"}, "think must be optional"),
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
    assert judged.not_finite == 2
    with pytest.warns(UserWarning, match="1 NaN"):
        assert load_rewards([f"python:{__name__}:a_tensor"])(batch("a", "b")).score == [0.5, None]


def test_weights_combine_scores_only():
    specs = ["verdict", {"name": "overlong", "weight": 0.5, "max_length": 20, "cache": 10}]
    judged = load_rewards(specs, Judge())(batch("1", "1", "0", "none", lengths=[10, 20, 15, 20]))
    assert judged.score == [1.0, 0.5, -0.25, None]
    assert judged.correct == [True, True, False, None]
    assert judged.valid == [True, True, True, False]
    assert judged.parts["overlong"] == [0.0, -1.0, -0.5, -1.0]


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
