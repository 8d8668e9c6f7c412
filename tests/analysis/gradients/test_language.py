"""Scores of a language model's responses, and the whole call on one."""

from __future__ import annotations

import json

import pytest
import torch
from click.testing import CliRunner

from upside.analysis import blocks
from upside.analysis.gradients import microscope
from upside.analysis.gradients.language import score
from upside.cli import main
from upside.models.loading import load_model

ESTIMATORS = "reinforce,rloo,canon_intra,canon_dynamic,adora,aapo,remax"


def test_a_score_is_what_plain_autograd_gives(model):
    policy, _ = load_model(model)
    prompt, response, temperature = [5, 9, 7], [30, 11, 40], 0.7
    found, entropy = score(policy, prompt, response, temperature)
    policy.zero_grad()
    total, entropies = torch.zeros(()), []
    for at, token in enumerate(response):  # a pass for every token, as it was sampled
        logits = policy(torch.tensor([prompt + response[:at]])).logits[0, -1] / temperature
        chance = logits.softmax(0)
        total = total + chance[token].log()
        entropies.append(float(-(chance * chance.log()).sum().detach()))
    total.backward()
    for mine, parameter in zip(found, policy.parameters(), strict=True):
        torch.testing.assert_close(mine, parameter.grad, rtol=1e-4, atol=1e-6)
    assert entropy == pytest.approx(sum(entropies) / 3, rel=1e-5)


def test_scores_are_of_the_distribution_that_was_sampled(model):
    from upside.engines.sampler import sample

    policy, _ = load_model(model)
    torch.manual_seed(0)
    drawn = sample(policy, [[5, 9, 7]], eos_ids=[1], max_new_tokens=8, temperature=0.5)
    _, entropy = score(policy, [5, 9, 7], drawn.ids[0], 0.5)
    assert entropy == pytest.approx(sum(drawn.entropies[0]) / len(drawn.ids[0]), rel=1e-4)


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """`upside microscope` on the bundled model: its output folder and what it printed."""
    folder = tmp_path_factory.mktemp("scope")
    arguments = [
        "microscope", "bundled", "--estimators", ESTIMATORS, "--group-size", "2,4", "--problems", "8", "--samples",
        "32", "--prompts-per-batch", "4", "--output", str(folder),
    ]  # fmt: skip
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return folder, done.output


def test_the_command_prints_and_writes(command):
    folder, printed = command
    assert "The bend: where the mean gradient points" in printed
    assert "canon_intra gives every response advantage 0" not in printed  # at 4; at 2 the table says so
    assert "no signal" in printed
    tree = json.loads((folder / "microscope.json").read_text())
    assert {(f["estimator"], f["group_size"]) for f in tree["figures"]} == {
        (name, size) for name in ESTIMATORS.split(",") for size in (2, 4)
    }
    assert tree["settings"]["parameters"] == 645632
    assert tree["settings"]["projection_error"] < 3 * (2 / 8192) ** 0.5
    assert (folder / "microscope.png").stat().st_size > 10_000
    titles = [block.title for block in blocks.load(folder / "sections.json")[0].blocks if hasattr(block, "title")]
    assert titles[:3] == [
        "The bend: where the mean gradient points",
        "The noise: what one batch is worth",
        "Where the noise comes from",
    ]


def test_known_relations_hold_on_the_model(command):
    folder, _ = command
    found = {
        (f["estimator"], f["group_size"]): f for f in json.loads((folder / "microscope.json").read_text())["figures"]
    }
    again = microscope(
        "bundled", estimators=["rloo", "dr_grpo"], group_sizes=[4], problems=8, samples=32, prompts_per_batch=4
    )
    rloo, dr_grpo = again["rloo", 4], again["dr_grpo", 4]
    assert rloo.cosine.value == pytest.approx(found["rloo", 4]["cosine"]["value"])  # the same call, the same responses
    assert dr_grpo.scale.value == pytest.approx(0.75 * rloo.scale.value, rel=1e-4)
    assert dr_grpo.cosine.value == pytest.approx(rloo.cosine.value, rel=1e-5)
    assert found["canon_intra", 2]["idle"]["value"] == 1.0
    assert found["aapo", 4]["idle"]["value"] < found["rloo", 4]["idle"]["value"]


def test_a_model_that_is_never_right_has_nothing_to_compare(model, tmp_path):
    data = tmp_path / "sums.jsonl"
    data.write_text("".join(json.dumps({"prompt": f"{a}+1=", "answer": "none"}) + "\n" for a in range(4)))
    found = microscope(
        model, data, ["reinforce", "grpo"], [2], split="train", problems=2, samples=8, prompts_per_batch=2,
        max_new_tokens=4, projection=100,
    )  # fmt: skip
    prose = found.sections()[0].blocks[0].paragraphs
    assert prose[1] == "reinforce gives every response advantage 0 and teaches nothing."
    assert found.settings["projection"] == 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--prompts-per-batch", "3"],
            "prompts_per_batch=3 does not divide the 8 prompts",
        ),
        (
            ["--estimators", "rloo,canon:metric=novelty"],
            "estimators: canon:metric=novelty needs novelty, which the microscope does not have",
        ),
        (["--projection", "0"], "projection must be at least 1 dimension, got 0"),
        (["--problems", "0"], "problems must be at least 1 prompt, got 0"),
    ],
)
def test_errors_are_one_line_before_a_model_is_loaded(arguments, message):
    done = CliRunner().invoke(main, ["microscope", "bundled", "--problems", "8", *arguments])
    assert done.exit_code == 2
    assert done.output.startswith(f"Error: {message}")
    assert done.output.count("\n") == 1


def test_prompts_per_batch_fits_the_prompts_by_default() -> None:
    found = microscope("bundled", estimators=["rloo"], group_sizes=[2], problems=6, samples=8)
    assert found.settings["prompts_per_batch"] == 6
