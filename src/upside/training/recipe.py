"""A run as one YAML file: typed fields, `key=value` overrides, errors that name the key, the line and the remedy."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from upside.training.recipe_checks import check
from upside.training.recipe_fields import Evaluation, Recipe, RecipeError, nearest

__all__ = ["Evaluation", "Recipe", "RecipeError", "check", "load", "shipped", "to_yaml"]


def shipped(name: str = "reasoner") -> Path:
    """The recipe of that name that comes with the package. FileNotFoundError when there is none."""
    found = Path(str(files("upside"))) / "recipes" / f"{name}.yaml"
    source = Path(__file__).parents[3] / "recipes" / f"{name}.yaml"
    for path in (found, source):
        if path.is_file():
            return path
    raise FileNotFoundError(f"no recipe {name!r} comes with the package")


def load(path: str | Path | None = None, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of a YAML file (None: the shipped default) with `key=value` overrides, validated.

    A bare name such as `reasoner` or `papers/aapo_7b` means a shipped recipe when no such file exists.
    Raises RecipeError or FileNotFoundError.
    """
    file = _find(path)
    text = file.read_text(encoding="utf-8")
    base = OmegaConf.structured(Recipe)
    try:
        content = OmegaConf.create(text) if text.strip() else OmegaConf.create({})
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        raise RecipeError(f"{file} is not valid YAML: {str(error).replace('<unicode string>', str(file))}") from None
    if not OmegaConf.is_dict(content):
        raise RecipeError(f"{file} must hold `key: value` lines, not a list")
    _check_keys(OmegaConf.to_container(content), _lines(text), str(file))
    dots = _dotted(overrides)
    _check_keys(OmegaConf.to_container(dots), {}, "the command line")
    for origin, part in ((str(file), content), ("the command line", dots)):
        try:
            base = OmegaConf.merge(base, part)
        except OmegaConfBaseException as error:
            raise RecipeError(_wrong_value(error, origin, _lines(text) if part is content else {})) from None
    recipe = OmegaConf.to_object(base)
    assert isinstance(recipe, Recipe)
    if "name" not in content and "name" not in dots:
        recipe.name = file.stem
    if recipe.doctor == "False":
        recipe.doctor = "off"  # YAML reads a bare off as false
    check(recipe)
    return recipe


def to_yaml(recipe: Recipe) -> str:
    """The resolved recipe; `load` of it gives the same recipe back."""
    return OmegaConf.to_yaml(OmegaConf.structured(recipe))


def _wrong_value(error: OmegaConfBaseException, origin: str, lines: dict[str, int]) -> str:
    key = str(getattr(error, "full_key", None) or getattr(error, "key", None) or "")
    where = f"{origin}, line {lines[key]}" if key in lines else origin
    return f"{where}: {f'{key}: ' if key else ''}{str(error).splitlines()[0]}"


def _find(path: str | Path | None) -> Path:
    if path is None:
        return shipped()
    if Path(path).is_file():
        return Path(path)
    try:
        return shipped(str(path).removesuffix(".yaml").removeprefix("recipes/"))
    except FileNotFoundError:
        raise FileNotFoundError(f"no recipe file {path}{_neighbours(Path(path))}") from None


def _neighbours(path: Path) -> str:
    folder = path.parent
    names = [p.name for p in folder.glob("*.yaml")] if folder.is_dir() else []
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.4)
    return f"; did you mean {folder / close[0]}?" if close else f" (from {os.path.relpath(folder)})"


def _dotted(overrides: Sequence[str]) -> Any:
    for item in overrides:
        key, equals, _ = item.partition("=")
        if not equals or not key.strip():
            raise RecipeError(f"cannot read {item!r}; write key=value, such as steps=50")
    try:
        return OmegaConf.from_dotlist(list(overrides))
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        raise RecipeError(f"the command line: {str(error).splitlines()[0]}") from None


def _check_keys(content: Any, lines: dict[str, int], origin: str) -> None:
    """RecipeError for a key that the dataclasses do not have, with the nearest one that they have."""
    for path, known in _keys(content, Recipe, ""):
        parent, _, key = path.rpartition(".")
        if key not in known:
            where = f"{origin}, line {lines[path]}" if path in lines else origin
            near = nearest(key, known) or f" {parent or 'a recipe'} has: {', '.join(known)}"
            raise RecipeError(f"{where}: unknown key {path!r};{near}")


def _keys(content: Any, schema: type, prefix: str) -> Iterator[tuple[str, list[str]]]:
    fields = {f.name: f for f in dataclasses.fields(schema)}
    for key, value in content.items():
        path = f"{prefix}{key}"
        yield path, list(fields)
        if key in ("rewards", "report_to") and not isinstance(value, list):
            raise RecipeError(f"{path}: {value!r} must be a list, such as [{value}]")
        if key == "eval" and not prefix:
            if not isinstance(value, dict):
                raise RecipeError(f"eval: {value!r} must hold keys, such as eval.problems={value}")
            yield from _keys(value, Evaluation, f"{path}.")


def _lines(text: str) -> dict[str, int]:
    """Dotted key -> line number, from 1."""
    found: dict[str, int] = {}

    def walk(node: Any, prefix: str) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                path = f"{prefix}{key.value}"
                found[path] = key.start_mark.line + 1
                walk(value, f"{path}.")
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                walk(value, f"{prefix}{index}.")

    walk(yaml.compose(text, Loader=yaml.SafeLoader), "")
    return found
