"""Generated ids, end tokens, padding, limits: what is counted and what becomes text. Reports: reports of the field, by
repository and number."""

import pytest
import torch

from upside.evaluation import evaluate
from upside.evaluation.backends import TransformersBackend, UpsideBackend
from upside.evaluation.generate import cut, end_ids
from upside.evaluation.judging import Judge
from upside.evaluation.run import respond
from upside.evaluation.sampling import Sampling
from upside.tasks import Problem, Verdict
from upside.tasks.prompts import prompt_ids

BACKENDS = [TransformersBackend, UpsideBackend]
EOS, PAD = 1, 0


def lengths_as_generated(out, eos, limit):
    for ids in out:
        assert not any(i in eos for i in ids[:-1])
        assert ids[-1] in eos or len(ids) == limit


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_end_tokens_all_end_a_response(model, tokenizer, task, backend):
    # compose-rl#31: Llama-3 has several
    eos = list(range(3, 60))
    prompts = [prompt_ids(tokenizer, p) for p in task.problems("test", 30)]
    out = backend(model, tokenizer).generate(prompts, range(30), eos, Sampling(max_new_tokens=12))
    assert len({len(ids) for ids in out}) > 2
    lengths_as_generated(out, eos, 12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_pad_that_is_the_end_token_loses_no_token(model, tokenizer, task, backend):
    # trl#4970, MemGen#33, verl#3805: where pad == eos, a mask by token value loses the end token or counts padding
    saved = tokenizer.pad_token
    tokenizer.pad_token = tokenizer.eos_token
    try:
        eos = [EOS, *range(3, 60)]  # many, so that rows end at different times and the rest is padded with ids of eos
        prompts = [prompt_ids(tokenizer, p) for p in task.problems("test", 20)]
        asked = Sampling(max_new_tokens=12)
        together = backend(model, tokenizer).generate(prompts, range(20), eos, asked)
    finally:
        tokenizer.pad_token = saved
    assert together == backend(model, tokenizer).generate(prompts, range(20), eos, asked)
    assert len({len(ids) for ids in together}) > 2  # MemGen#33: all lengths equal
    lengths_as_generated(together, eos, 12)


class Says:
    """A backend that answers with given ids."""

    name, batch_size = "says", 8

    def __init__(self, tokenizer, answers, eos=(EOS,)):
        self.tokenizer, self.answers, self.eos = tokenizer, answers, list(eos)

    def end_ids(self, task):
        return self.eos

    def generate(self, prompts, seeds, eos_ids, sampling):
        return self.answers[: len(prompts)]


def rows_of(tokenizer, answers, eos=(EOS,), verify=lambda problem, response: Verdict(1.0, response == "12")):
    problems = [Problem(str(i), "?", "12") for i in range(len(answers))]
    prompts = [[2]] * len(answers)
    return respond(Says(tokenizer, answers, eos), problems, prompts, Judge(verify), Sampling(), 8, 0)


def test_rows_by_hand(tokenizer):
    one, two = tokenizer("12")["input_ids"]
    answers = [[one, two, EOS], [one, two], [EOS], [one, PAD, two, 9], [one, two, 9]]
    found = rows_of(tokenizer, answers, eos=[EOS, 9])
    # verl#3805: no end token at the limit: truncated, and its length is what was generated
    assert [(r.tokens, r.truncated) for r in found] == [(3, False), (2, True), (1, False), (4, False), (3, False)]
    # text without special tokens, the empty response included (verl OPO: all-empty)
    assert found[0].response == found[1].response == "12"
    assert found[2].response == ""
    assert found[2].final is None
    assert "<pad>" not in found[3].response
    # an end token of the generation config that is no special token stays in the text that is judged
    assert found[4].response == "12" + tokenizer.decode([9])


def test_a_response_of_no_ids_at_all_is_truncated_not_a_crash(tokenizer):
    (found,) = rows_of(tokenizer, [[]])
    assert (found.tokens, found.truncated, found.response) == (0, True, "")


def test_cut_keeps_the_first_end_token_and_nothing_after_it():
    # trl#2708: what follows the end token is no part of the response
    assert cut([5, 1, 5, 1], [1]) == [5, 1]
    assert cut([5, 9, 1], [1, 9]) == [5, 9]
    assert cut([5, 5], [1]) == [5, 5]
    assert cut([], [1]) == []


def test_lengths_count_truncated_responses_in_full(model, tokenizer, task):
    # trl#3476, trl#4976: lengths logged from the zeroed mask
    found = evaluate(model, tokenizer, task.problems("test", 4), task, samples=2, max_new_tokens=5)
    assert all(row.tokens == 5 and row.truncated for row in found.rows if row.truncated)
    assert found.truncated.value > 0.5
    assert found.tokens.value == pytest.approx(sum(r.tokens for r in found.rows) / 8)


def test_accuracy_is_of_correctness_not_of_the_reward(tokenizer):
    # trl#5787, trl#7144: the training reward saturates while accuracy falls
    one, two = tokenizer("12")["input_ids"]
    shaped = lambda problem, response: Verdict(9.0 if response != "12" else -9.0, response == "12")  # noqa: E731
    found = rows_of(tokenizer, [[one, two, EOS], [one, EOS]], verify=shaped)
    assert [(r.score, r.correct) for r in found] == [(-9.0, True), (9.0, False)]
    from upside.evaluation import Evaluation

    assert Evaluation(found).accuracy.value == 0.5


def test_end_ids_join_model_and_tokenizer(model, tokenizer):
    saved = model.generation_config.eos_token_id
    model.generation_config.eos_token_id = [5, 9]
    try:
        assert end_ids(model, tokenizer) == [1, 5, 9]
    finally:
        model.generation_config.eos_token_id = saved


@pytest.mark.parametrize("backend", BACKENDS)
def test_sampling_follows_the_models_distribution(model, tokenizer, backend):
    """First-token frequencies against the softmax, cut to the nucleus or the top k, whatever the checkpoint's own
    configuration says."""
    ids = prompt_ids(tokenizer, Problem("p", "1+1", ""))
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, -1] / 0.5
    ranked = logits.sort(descending=True)
    shares = ranked.values.softmax(-1)
    in_nucleus = int((shares.cumsum(-1) - shares < 0.3).sum())
    saved = model.generation_config.temperature, model.generation_config.repetition_penalty
    model.generation_config.temperature, model.generation_config.repetition_penalty = 0.01, 5.0
    try:
        for law, kept in ({"top_k": 3}, 3), ({"top_p": 0.3}, in_nucleus):
            sampling = Sampling(max_new_tokens=1, temperature=0.5, **law)
            out = backend(model, tokenizer).generate([ids] * 6000, range(6000), [EOS], sampling)
            seen = {o[0] for o in out}
            assert seen <= set(ranked.indices[:kept].tolist())
            for index, p in zip(
                ranked.indices[:3].tolist(), ranked.values[:kept].softmax(-1)[:3].tolist(), strict=True
            ):
                assert sum(o == [index] for o in out) / 6000 == pytest.approx(p, abs=0.03)
        assert model.generation_config.temperature == 0.01
    finally:
        model.generation_config.temperature, model.generation_config.repetition_penalty = saved
