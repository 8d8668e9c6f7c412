"""`evaluate` on real transformers models: reproducibility, batches, judging."""

import dataclasses

import pytest
import torch

from upside.evaluation import describe, evaluate
from upside.evaluation.run import within_context
from upside.evaluation.sampling import Sampling
from upside.tasks import Problem, Verdict
from upside.tasks.prompts import prompt_ids

BACKENDS = ["transformers", "upside"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_reproducible_and_leaves_the_callers_random_state(model, tokenizer, task, backend):
    # verl#1683, open-instruct#648: the same call gives the same responses
    problems = task.problems("test", 6)
    torch.manual_seed(7)
    state = torch.get_rng_state()
    model.train()
    how = {"samples": 3, "max_new_tokens": 8, "batch_size": 5, "backend": backend}
    first = evaluate(model, tokenizer, problems, task, **how)
    assert model.training
    model.eval()
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(8)
    again = evaluate(model, tokenizer, problems, task, **how)
    assert again.rows == first.rows
    other = evaluate(model, tokenizer, problems, task, **how, seed=1)
    assert [r.response for r in other.rows] != [r.response for r in first.rows]
    assert [r.problem for r in first.rows] == [p.id for p in problems for _ in range(3)]
    assert [r.sample for r in first.rows] == [0, 1, 2] * 6
    assert torch.is_grad_enabled()
    assert len({r.response for r in first.rows[:3]}) == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_greedy_does_not_depend_on_batches_or_neighbours(model, tokenizer, task, backend):
    problems = task.problems("test", 9)
    runs = [
        evaluate(model, tokenizer, problems, task, greedy=True, max_new_tokens=10, batch_size=size, backend=backend)
        for size in (1, 4, 100)
    ]
    texts = [[row.response for row in run.rows] for run in runs]
    assert texts[0] == texts[1] == texts[2]
    by_hand = torch.tensor([prompt_ids(tokenizer, problems[0])])
    with torch.no_grad():
        for _ in range(10):
            best = model(by_hand).logits[:, -1].argmax(-1, keepdim=True)
            by_hand = torch.cat([by_hand, best], 1)
    assert tokenizer.decode(by_hand[0, -10:], skip_special_tokens=True) == texts[0][0]


def test_more_samples_than_a_batch_holds_are_drawn_in_several(model, tokenizer, task):
    found = evaluate(model, tokenizer, task.problems("test", 2), task, samples=7, max_new_tokens=6, batch_size=3)
    for rows in found.by_problem:
        assert [row.sample for row in rows] == list(range(7))
        assert len({row.response for row in rows}) == 7  # no part repeats the random numbers of another


def test_progress_and_a_verify_function(model, tokenizer, task):
    seen = []
    found = evaluate(
        model,
        tokenizer,
        task.problems("test", 5),
        lambda problem, response: Verdict(None, None),
        samples=2,
        max_new_tokens=2,
        batch_size=4,
        progress=lambda *state: seen.append(state),
        style=lambda response: "any",
    )
    assert seen == [(4, 10, 8), (8, 10, 8), (10, 10, 4)]
    assert found.unjudged == 1.0
    assert found.accuracy.problems == 0
    assert found.summary()["styles"]["any"]["share"] == 1.0
    describe(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 0}, "samples must be at least 1"),
        ({"samples": 2, "greedy": True}, "1 when greedy"),
        ({"samples": 100_001}, "samples must be at most 100000"),
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"temperature": float("inf")}, "temperature must be positive and finite"),
        ({"temperature": float("nan")}, "temperature must be positive and finite"),
        ({"top_p": 0.0}, "top_p must be in"),
        ({"top_k": -1}, "top_k must be 0"),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"backend": "vllm"}, "upside or transformers for a loaded model, got 'vllm'"),
    ],
)
def test_settings_out_of_range(model, tokenizer, task, options, message):
    with pytest.raises(ValueError, match=message):
        evaluate(model, tokenizer, task.problems("test", 2), task, **options)


def test_a_failing_verifier_names_the_problem(model, tokenizer, task):
    with pytest.raises(ValueError, match=r"verifier failed on problem 'arithmetic/.*ZeroDivisionError"):
        evaluate(model, tokenizer, task.problems("test", 1), lambda p, r: 1 / 0, max_new_tokens=1)


@pytest.mark.parametrize("given", [None, 1.0, True, (1.0, True)])
def test_a_verdict_that_is_none_is_refused(model, tokenizer, task, given):
    with pytest.raises(ValueError, match=r"the verifier gave .* for problem 'arithmetic/.*; it must be a Verdict"):
        evaluate(model, tokenizer, task.problems("test", 1), lambda p, r: given, max_new_tokens=1)


class Batched:
    """A task that judges whole batches and notes what it was given."""

    name = "batched"

    def __init__(self, verdicts):
        self.verdicts, self.seen = verdicts, []

    def problems(self, split, count=None, seed=0):
        return [Problem(str(i), f"{i}+1", "1") for i in range(count)]

    def verify(self, problem, response):
        raise AssertionError("the batch is judged as a whole")

    def verify_batch(self, problems, responses):
        self.seen.append([p.id for p in problems])
        return self.verdicts(len(responses))


def test_a_task_judges_a_whole_batch_at_once(model, tokenizer):
    outcomes = [Verdict(1.0, True), Verdict(0.0, False, "unparsed"), Verdict(None, None, "timeout"), Verdict(-1, False)]
    batched = Batched(lambda n: outcomes[:n])
    found = evaluate(model, tokenizer, batched.problems("test", 3), batched, samples=2, max_new_tokens=2, batch_size=4)
    assert batched.seen == [["0", "0", "1", "1"], ["2", "2"]]
    assert [r.outcome for r in found.rows] == ["correct", "unparsed", "timeout", "wrong", "correct", "unparsed"]
    assert found.outcome("timeout").value == pytest.approx(1 / 6)
    with pytest.raises(ValueError, match="gave 1 verdicts for 2 responses"):
        evaluate(model, tokenizer, batched.problems("test", 2), Batched(lambda n: outcomes[:1]), max_new_tokens=2)
    with pytest.raises(ValueError, match="starts with problem '0': ZeroDivisionError"):
        evaluate(model, tokenizer, batched.problems("test", 2), Batched(lambda n: 1 / 0), max_new_tokens=2)


def test_problem_lists_are_checked(model, tokenizer, task):
    with pytest.raises(ValueError, match="no problems"):
        evaluate(model, tokenizer, [], task)
    with pytest.raises(ValueError, match="ids repeat"):
        evaluate(model, tokenizer, task.problems("test", 1) * 2, task)


def test_the_token_limit_stays_within_the_context():
    # trl#4358, trl#3569, unsloth#1642: prompt and response together outgrow the model's positions
    sampling = Sampling(max_new_tokens=100)
    assert within_context(sampling, 50, None) is sampling
    assert within_context(sampling, 50, 150) is sampling
    assert within_context(sampling, 51, 150) == dataclasses.replace(sampling, max_new_tokens=99)
    with pytest.raises(ValueError, match="longest prompt has 150 tokens, the model has positions for 150"):
        within_context(sampling, 150, 150)
