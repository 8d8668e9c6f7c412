"""recipes/papers against the papers' and released scripts' rewards and data, and docs/papers.md against the recipes."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import pytest

import upside
from upside.training.outlook import outlook
from upside.training.recipe import load

FOLDER = Path(__file__).parents[2] / "recipes" / "papers"
RECIPES = {path.stem: load(path) for path in sorted(FOLDER.glob("*.yaml"))}
DOCUMENT = (FOLDER.parents[1] / "docs" / "papers.md").read_text(encoding="utf-8")

KK = [{"name": "kk", "scale": "adora"}]
CANON: list[Any] = [{"name": "math", "on_failure": "wrong"}]
PUBLISHED: dict[str, tuple[str, list[Any]]] = {
    "adora_llm_released": ("kk", KK),
    "adora_llm_author": ("kk", KK),
    "adora_llm_paper": ("math", ["math"]),
    "adora_vl": ("geometry3k", ["geometry"]),
    "aapo_1.5b": (
        "open_rs",
        [
            {"name": "math", "weight": 0.0},
            {"name": "format", "weight": 1.0, "compat": "aapo"},
            {"name": "cosine", "weight": 2.0, "max_length": 1000, "unit": "characters"},
        ],
    ),
    "aapo_7b": ("simplelr", ["math"]),
    "aapo_llama": ("simplelr", ["math"]),
    "canon_dynamic_llama": ("data/canon_llama_35k.parquet", CANON),
    **{
        f"canon_{name}": ("openr1_math_46k", CANON)
        for name in ("inter_7b", "intra_7b", "dynamic_7b", "dynamic_1.5b", "eff_7b")
    },
}


def test_data_and_rewards_of_every_recipe() -> None:
    assert {name: (recipe.task, recipe.rewards) for name, recipe in RECIPES.items()} == PUBLISHED


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_dry_run_needs_no_network(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a dry run opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert outlook(RECIPES[name])


@pytest.mark.parametrize(
    ("name", "rewards"), [("adora_llm_released", [3.0, -0.5, -1.0, -3.0]), ("adora_vl", [1.0, 0.1, 0.1, 0.0])]
)
def test_success_of_adora_is_right_on_its_scale(name: str, rewards: list[float]) -> None:
    """Above 1.01 is exactly 3, above 0.5 exactly 1.0. The wrong answer of 150 tokens is no success, so the longest
    success (10) is shorter than the mean failure and the group is attenuated."""
    estimator = upside.estimator(RECIPES[name].estimator)
    for longest, weight in ((10, 0.1), (200, 1.0)):
        batch = upside.Rollouts(rewards, [0] * 4, lengths=[longest, 150, 100, 100])
        assert [row["weight"] for row in upside.explain(estimator, batch)] == pytest.approx([weight] * 4)


def test_the_document_names_estimator_data_and_rewards_of_every_recipe() -> None:
    rows = [line for line in DOCUMENT.splitlines() if "](../recipes/papers/" in line]
    assert {re.search(r"\[([\w.]+)\]", row).group(1) for row in rows} == set(RECIPES)  # type: ignore[union-attr]
    for row in rows:
        _, _, estimator, data, rewards, link = (cell.strip() for cell in row.strip("|").split("|"))
        recipe = RECIPES[re.search(r"\[([\w.]+)\]", link).group(1)]  # type: ignore[union-attr]
        named = re.search(r"`(\w+)", estimator).group(1)  # type: ignore[union-attr]
        assert recipe.estimator.partition(":")[0] == named
        if not recipe.task.startswith("data/"):
            assert re.search(r"`(\w+)`", data).group(1) == recipe.task  # type: ignore[union-attr]
        names = {entry if isinstance(entry, str) else entry["name"] for entry in recipe.rewards}
        assert set(re.findall(r"`(\w+)`", rewards)) == names
