"""Evaluation of real transformers models: tokens, reproducibility, end tokens, files."""

import json
from types import SimpleNamespace

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from upside.evaluation import Evaluation, Row, Sampling, describe, evaluate, figures, generate, run_evaluation
from upside.evaluation.generate import end_ids, transformers_backend, upside_backend
from upside.tasks import Problem, Verdict, load_task
from upside.tasks.prompts import prompt_ids, render_prompt, within_limit

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
BACKENDS = [transformers_backend, upside_backend]


def byte_tokenizer(template: str | None = TEMPLATE) -> PreTrainedTokenizerFast:
    vocab = {"<pad>": 0, "<eos>": 1, "<bos>": 2}
    for symbol in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocab[symbol] = len(vocab)
    bpe = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bpe.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, pad_token="<pad>", eos_token="<eos>", bos_token="<bos>")
    tokenizer.chat_template = template
    return tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return byte_tokenizer()


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=259,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=2,
        eos_token_id=1,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def task():
    return load_task("arithmetic")


def ask(text: str, **how) -> Problem:
    return Problem("p", text, "", **how)


def test_a_chat_prompt_has_one_bos(tokenizer):
    ids = prompt_ids(tokenizer, ask("1+1"))
    assert tokenizer.decode(ids) == "<bos><user>1+1\n<assistant>"
    assert ids.count(tokenizer.bos_token_id) == 1
    assert render_prompt(tokenizer, ask("1+1")) == [{"role": "user", "content": "1+1"}]


def test_a_system_prompt_comes_first(tokenizer):
    asked = ask("1+1", system="Be brief.")
    assert [m["role"] for m in render_prompt(tokenizer, asked)] == ["system", "user"]
    with pytest.raises(ValueError, match="no chat template"):
        render_prompt(byte_tokenizer(None), asked)


def test_a_base_model_gets_plain_text_whatever_its_template(tokenizer):
    asked = ask("Q: 1+1\nA:", chat=False)
    assert render_prompt(tokenizer, asked) == "Q: 1+1\nA:"
    assert prompt_ids(tokenizer, asked) == tokenizer("Q: 1+1\nA:")["input_ids"]
    with pytest.raises(ValueError, match="no system prompt"):
        ask("1+1", system="Be brief.", chat=False)


def test_a_plain_prompt_is_text():
    plain = byte_tokenizer(None)
    assert prompt_ids(plain, ask("1+1")) == plain("1+1")["input_ids"]
    with pytest.raises(ValueError, match="has no tokens"):
        prompt_ids(plain, ask(""))


@pytest.mark.parametrize("template", [TEMPLATE, None])
def test_trl_reads_the_same_prompt_tokens(model, template):
    """What TRL's trainer makes of a rendered prompt is what evaluation feeds the model."""
    from trl.trainer.grpo_trainer import GRPOTrainer

    tokenizer = byte_tokenizer(template)
    trainer = SimpleNamespace(
        _is_vlm=False,
        environment_factories=None,
        processing_class=tokenizer,
        tools=[],
        chat_template=None,
        chat_template_kwargs={},
    )
    prompts = [ask("1+1"), ask("A:Bn;B:A=C")]
    ids, _, _ = GRPOTrainer._tokenize_prompts(trainer, [render_prompt(tokenizer, p) for p in prompts])
    assert ids == [prompt_ids(tokenizer, p) for p in prompts]


def test_long_prompts_are_dropped_and_counted(tokenizer):
    problems = [Problem("a", "1+1", "2"), Problem("b", "1+1" * 50, "2")]
    assert within_limit(tokenizer, problems, 30) == (problems[:1], 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_reproducible_and_leaves_the_callers_random_state(model, tokenizer, task, backend):
    problems = task.problems("test", 6)
    torch.manual_seed(7)
    state = torch.get_rng_state()
    model.train()
    first = evaluate(model, tokenizer, problems, task, samples=3, max_new_tokens=8, batch_size=5, backend=backend)
    assert model.training
    model.eval()
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(8)
    again = evaluate(model, tokenizer, problems, task, samples=3, max_new_tokens=8, batch_size=5, backend=backend)
    assert again.rows == first.rows
    other = evaluate(model, tokenizer, problems, task, samples=3, max_new_tokens=8, seed=1, backend=backend)
    assert [r.response for r in other.rows] != [r.response for r in first.rows]
    assert [r.problem for r in first.rows] == [p.id for p in problems for _ in range(3)]
    assert [r.sample for r in first.rows] == [0, 1, 2] * 6
    assert torch.is_grad_enabled()


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


@pytest.mark.parametrize("backend", BACKENDS)
def test_length_counts_the_end_token_even_where_it_is_also_the_pad(model, tokenizer, task, backend):
    eos = list(range(1, 60))  # several end tokens, so that some responses end early
    prompts = [prompt_ids(tokenizer, p) for p in task.problems("test", 30)]
    out = generate(model, prompts, eos, Sampling(max_new_tokens=12), backend=backend)
    lengths = {len(ids) for ids in out}
    assert len(lengths) > 2
    for ids in out:
        assert not any(i in eos for i in ids[:-1])
        assert ids[-1] in eos or len(ids) == 12


def test_sampling_follows_the_models_distribution(model, tokenizer):
    """First-token frequencies against the softmax, truncated by top-k, whatever the checkpoint's own config says."""
    ids = prompt_ids(tokenizer, ask("1+1"))
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, -1] / 0.5
    top = logits.topk(3)
    saved = model.generation_config.temperature, model.generation_config.repetition_penalty
    model.generation_config.temperature, model.generation_config.repetition_penalty = 0.01, 5.0
    try:
        sampling = Sampling(max_new_tokens=1, temperature=0.5, top_k=3)
        out = generate(model, [ids] * 6000, [1], sampling, batch_size=3000)
        assert model.generation_config.temperature == 0.01
    finally:
        model.generation_config.temperature, model.generation_config.repetition_penalty = saved
    for index, p in zip(top.indices.tolist(), top.values.softmax(-1).tolist(), strict=True):
        assert sum(o == [index] for o in out) / 6000 == pytest.approx(p, abs=0.03)


def test_end_ids_join_model_and_tokenizer(model, tokenizer):
    saved = model.generation_config.eos_token_id
    model.generation_config.eos_token_id = [5, 9]
    try:
        assert end_ids(model, tokenizer) == [1, 5, 9]
    finally:
        model.generation_config.eos_token_id = saved


def test_progress_and_custom_verify(model, tokenizer, task):
    seen = []
    found = evaluate(
        model,
        tokenizer,
        task.problems("test", 5),
        lambda problem, response: Verdict(None, None),
        samples=2,
        max_new_tokens=2,
        batch_size=4,
        progress=lambda done, total: seen.append((done, total)),
        style=lambda response: "any",
    )
    assert seen == [(4, 10), (8, 10), (10, 10)]
    assert found.unjudged == 1.0
    assert found.accuracy.problems == 0
    assert found.summary()["styles"]["any"]["share"] == 1.0
    describe(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 0}, "samples must be at least 1"),
        ({"samples": 2, "greedy": True}, "1 when greedy"),
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"top_p": 0.0}, "top_p must be in"),
        ({"top_k": -1}, "top_k must be 0"),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
    ],
)
def test_settings_out_of_range(model, tokenizer, task, options, message):
    with pytest.raises(ValueError, match=message):
        evaluate(model, tokenizer, task.problems("test", 2), task, **options)


def test_a_failing_verifier_names_the_problem(model, tokenizer, task):
    with pytest.raises(ValueError, match=r"verifier failed on problem 'arithmetic/.*ZeroDivisionError"):
        evaluate(model, tokenizer, task.problems("test", 1), lambda p, r: 1 / 0, max_new_tokens=1)


def test_problem_lists_are_checked(model, tokenizer, task):
    with pytest.raises(ValueError, match="no problems"):
        evaluate(model, tokenizer, [], task)
    with pytest.raises(ValueError, match="ids repeat"):
        evaluate(model, tokenizer, task.problems("test", 1) * 2, task)


def row(problem: str, sample: int, correct: bool | None, **fields) -> Row:
    values = {
        "level": 1, "family": "f", "prompt": "p", "gold": "1", "response": "r", "tokens": 4,
        "truncated": False, "score": None if correct is None else float(correct), "final": "1", "style": None,
    }  # fmt: skip
    return Row(problem=problem, sample=sample, correct=correct, **{**values, **fields})


def test_figures_by_hand(tmp_path):
    rows = [
        row("a", 0, True, response="r", tokens=2),
        row("a", 1, True, response="r", tokens=4, style="short"),
        row("a", 2, False, response="<script>[bold]", final="2"),
        row("a", 3, False, response="", final=None, truncated=True),
        row("b", 0, False, response="r", level=2, family="g", final="7"),
        row("b", 1, False, response="r", level=2, family="g", final="7"),
        row("b", 2, False, response="r", level=2, family="g", final="1"),
        row("b", 3, None, response="r", level=2, family="g", final=None),
    ]
    found = Evaluation(rows, {"task": "t"})
    assert found.accuracy.value == pytest.approx(0.25)
    assert found.pass_at(2).value == pytest.approx((5 / 6 + 0) / 2)
    assert found.pass_at(4).value == 1.0
    assert found.pass_at(4).problems == 1
    assert found.majority_at(3).value == pytest.approx(0.5)
    assert found.mixed(3).value == pytest.approx(0.5)
    assert found.tokens.value == pytest.approx((14 / 4 + 4) / 2)
    assert found.truncated.value == pytest.approx(0.125)
    assert found.unjudged == 0.125
    assert found.unanswered == 0.25
    assert {k: v.value for k, v in found.by_level().items()} == {1: 0.5, 2: 0.0}
    assert {k: v.value for k, v in found.by_family().items()} == {"f": 0.5, "g": 0.0}
    assert found.styles() == {"short": (1.0, 1.0)}
    with pytest.raises(ValueError, match=r"pass@5 needs 1\.\.4"):
        found.pass_at(5)
    with pytest.raises(ValueError, match=r"groups of 8 needs 1\.\.4"):
        found.mixed(8)
    names = [name for name, _, _ in figures(found)]
    assert names[:2] == ["accuracy (pass@1, avg@4)", "pass@4"]
    assert "strategy short" in names
    found.to_parquet(tmp_path / "r.parquet")
    assert Evaluation.from_parquet(tmp_path / "r.parquet").rows == rows
    describe(found, "model [/red] on [x]")
    found.to_json(tmp_path / "e.json")
    assert json.loads((tmp_path / "e.json").read_text())["accuracy"]["value"] == 0.25


def test_run_evaluation_writes_files_and_refuses_to_overwrite(model, tokenizer, tmp_path):
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    options = {"problems": 4, "samples": 8, "max_new_tokens": 6, "output": tmp_path / "out"}
    found = run_evaluation(tmp_path / "model", "reasoner", **options)
    assert len(found.rows) == 32
    written = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert written["settings"]["task"] == "reasoner"
    assert written["mixed"]["8"]["problems"] == 4
    assert Evaluation.from_parquet(tmp_path / "out" / "responses.parquet").rows == found.rows
    with pytest.raises(FileExistsError, match="already holds an evaluation"):
        run_evaluation(tmp_path / "model", "reasoner", **options)


def test_run_evaluation_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a model folder"):
        run_evaluation(tmp_path, "reasoner", problems=1)
    with pytest.raises(ValueError, match="backend must be one of"):
        run_evaluation(tmp_path, backend="vlm")


@pytest.mark.parametrize(
    "wrong", [{"samples": 0}, {"temperature": -1.0}, {"top_p": 0.0}, {"top_k": -1}, {"batch_size": 0}]
)
def test_run_evaluation_refuses_settings_before_it_loads_a_model(tmp_path, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        run_evaluation(tmp_path / "no_such_model", "arithmetic", problems=1, **wrong)
