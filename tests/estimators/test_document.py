"""docs/algorithms.md against the registry: names, options, defaults, needs, chains, laws, schedules, metrics."""

import dataclasses
import re
from pathlib import Path

import pytest
import torch
from batches import fields
from test_properties import LAWS

import upside
from upside import registry
from upside.schedules import SCHEDULES, schedule

TEXT = (Path(__file__).parents[2] / "docs" / "algorithms.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^###? (.*)\n((?:(?!^##).*\n)*)", TEXT, flags=re.M))


def section(name):
    """The text of the section whose heading has `name` in backticks."""
    return next(body for heading, body in SECTIONS.items() if f"`{name}`" in heading)


def table(text):
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {row[0].strip("`"): row[1:] for row in reversed(rows)}  # the first table of a section wins


GLANCE = table(SECTIONS["Presets at a glance"])
SHIPPED = {name: info for name, info in registry.STAGES.items() if info.build.__module__.startswith("upside.")}


@pytest.mark.parametrize("name", sorted({**registry.STAGES, **registry.PRESETS}))
def test_every_stage_and_preset_has_a_section_with_its_options(name):
    body = section(name)
    found = registry.PRESETS.get(name) or registry.STAGES[name]
    for option in registry.options(found.options_of):
        assert f"`{option}`" in body or (name == "dapo" and option in ("eps", "ddof")), f"{name}: {option}"


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_documented_defaults(name):
    info = SHIPPED[name]
    documented = {option: cells[0] for option, cells in table(section(name)).items() if len(cells) == 2}
    for option, default in registry.options(info.options_of).items():
        shown = documented.get(option) or documented.get(f"{option}` (`whitening` in the presets)")
        if shown is None or default is None:  # in the text alone; or a default that another option sets
            continue
        assert (
            str(default).lower() in shown.replace('"', "`").replace("1e-4", "0.0001").replace("1e-8", "1e-08").lower()
        )


def test_the_table_has_every_preset_and_no_other():
    assert set(GLANCE) - {"preset", "---"} == set(upside.presets())


@pytest.mark.parametrize("name", upside.presets())
def test_the_table_tells_the_truth(name):
    chain, needs, constant, shift, scale = GLANCE[name]
    estimator = upside.estimator(name)
    assert [stage.info.name for stage in estimator.stages] == re.split(
        r" > ", chain.partition(",")[0].partition(" on ")[0]
    )
    assert ", ".join(sorted(estimator.needs)) == needs
    assert (constant == "yes") == estimator.zero_on_constant
    assert (shift == "yes", {"0": 0, "1": 1, "–": None}[scale]) == LAWS[name]


def test_the_table_of_kinds():
    documented = {
        name: kind for kind, cells in table(SECTIONS["Chains and the order of stages"]).items()
        for name in re.findall(r"`(\w+)`", cells[1])
    }  # fmt: skip
    assert documented == {name: info.kind for name, info in SHIPPED.items()}


def test_schedules_and_their_constants():
    documented = table(SECTIONS["Schedules"])
    for name, cls in SCHEDULES.items():
        constants = {f.name for f in dataclasses.fields(cls)}
        known = set(re.findall(r"`(\w+)`", documented[name][1])) - {"total_steps"}
        assert known <= constants
        assert known == constants or "the same with" in documented[name][1]


def test_sample_values():
    steps = re.search(r"\| step \|(.*)\|\n", TEXT).group(1).split("|")
    for name in ("cosine_first_inter", "cosine_first_intra"):
        shown = re.search(rf"\| `{name}` \|([ 0-9.|]*)\|\n", TEXT).group(1).split("|")
        for group, value in zip(steps, shown, strict=True):
            for step in group.split(","):
                batch = upside.Rollouts([1], [0], step=int(step))
                assert schedule(name)(batch) == pytest.approx(float(value), abs=5e-5)


@pytest.mark.filterwarnings("ignore:.*(single response|has a reward)")
def test_every_metric():
    names = [line.split("|")[1] for line in SECTIONS["Metrics"].splitlines() if line.startswith("| `")]
    documented = set(re.findall(r"`([\w/]+)`", " ".join(names)))
    batch = upside.Rollouts(**fields(1, [3, 4, 1]))
    reported = {
        re.sub(r"group_size/\d+", "group_size/n", key)
        for spec in ("canon > reference_margin > adora_weight", "gpg")
        for key in upside.estimator(spec)(batch).metrics
    }
    assert documented == reported


def test_the_example_with_an_odd_group():
    batch = upside.Rollouts([1, 0, 1], [0] * 3, entropy=[1, 2, 3])
    assert torch.allclose(upside.estimator("canon")(batch).values, torch.tensor([1 / 3, -2 / 3, 1 / 3]))
    assert torch.allclose(upside.estimator("canon:odd=high")(batch).values, torch.tensor([0.5, -1, 0]))


def test_every_spec_in_the_text_can_be_built():
    specs = {text for text in re.findall(r"`([a-z_]+(?::[^`]+| > [^`]+))`", TEXT) if "…" not in text}
    assert len(specs) >= 5
    for spec in specs:
        assert str(upside.estimator(spec)) == spec


def test_links_within_the_page():
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in SECTIONS}
    anchors |= {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^## (.*)$", TEXT, flags=re.M)}
    assert set(re.findall(r"\]\(#([\w-]+)\)", TEXT)) <= anchors
