"""The families of the task `shapes`: every configuration with its question, answer and level.

A configuration is what decides the answer: a kind of figure and its numbers, whatever their order. It belongs to train
or to test as a whole, with all its pictures and questions: of a kind's configurations, ordered by level and answer,
every third is held out. No seed moves it, and the answers of the test split are as varied as those of training; a hash
would leave one or two configurations of the small families there.

| family | question | levels | figure |
|---|---|---|---|
| `grid_area` | area? | 1: sides up to 4; 2: up to 7 | cells on a ruled grid |
| `grid_perimeter` | perimeter? | 1, 2: as above | the same |
| `count` | circles? | 1: up to 4; 2: up to 9 | circles among squares |
| `sides_to_scale` | area? perimeter? | 2: sides up to 5; 3: up to 9 | rectangle, sides written, to scale |
| `sides` | area? perimeter? | 3: sides up to 5; 4: up to 9 | the same, not to scale: only the digits tell |
| `angle` | angle? | 3: tens; 4: fives; 5: both, not to scale | triangle, two angles written |
| `composite` | area? | 4: numbers up to 5; 5: up to 9 | two rectangles, or one with a hole; not to scale |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

LEVELS = (1, 2, 3, 4, 5)
LARGEST_ANSWER = 99
HELD_OUT = 3
"""One configuration of that many is a test configuration."""


@dataclass(frozen=True)
class Configuration:
    """kind, numbers: of the figure (`upside.tasks.shapes.figures`). key: what holds it out."""

    family: str
    level: int
    kind: str
    numbers: tuple[int, ...]
    question: str
    answer: int
    key: str
    held_out: bool = False


def _key(name: str, *numbers: int) -> str:
    return f"{name}/{'-'.join(map(str, numbers))}"


def _rectangles(
    family: str, kind: str, questions: str, sides: range, small: int, level: int
) -> Iterator[Configuration]:
    """`level` up to sides of `small`, else the next one."""
    for across, down, question in product(sides, sides, questions.split()):
        answer = across * down if question == "area" else 2 * (across + down)
        harder = max(across, down) > small
        key = _key(kind, *sorted((across, down)))
        yield Configuration(family, level + harder, kind, (across, down), question, answer, key)


def _counts() -> Iterator[Configuration]:
    for circles, squares in product(range(1, 10), range(1, 8)):
        numbers, level = (circles, squares), 1 if circles <= 4 else 2
        yield Configuration("count", level, "count", numbers, "circles", circles, _key("count", *numbers))


def _angles() -> Iterator[Configuration]:
    """Of a triangle each angle may be the missing one; the two written ones come smaller first."""
    for first, second in product(range(20, 141, 5), repeat=2):
        third = 180 - first - second
        if first > second or third < 20:
            continue
        numbers = first, second, third
        key = _key("angle", *sorted(numbers))
        level = 3 if all(each % 10 == 0 for each in numbers) else 4
        yield Configuration("angle", level, "angle", numbers, "angle", third, key)
        yield Configuration("angle", 5, "angle_free", numbers, "angle", third, key)


def _composites() -> Iterator[Configuration]:
    for width, height, inner_width, inner_height in product(range(2, 10), repeat=4):
        numbers = width, height, inner_width, inner_height
        level = 4 if max(numbers) <= 5 else 5
        whole, part = width * height, inner_width * inner_height
        if inner_width < width and whole + part <= LARGEST_ANSWER:
            yield Configuration("composite", level, "corner", numbers, "area", whole + part, _key("corner", *numbers))
        if inner_width < width and inner_height < height:
            sides = sorted(((width, inner_width), (height, inner_height)))
            key = _key("frame", *(each for pair in sides for each in pair))
            yield Configuration("composite", level, "frame", numbers, "area", whole - part, key)


FAMILIES: dict[str, Callable[[], Iterator[Configuration]]] = {
    "grid_area": lambda: _rectangles("grid_area", "grid", "area", range(1, 8), 4, 1),
    "grid_perimeter": lambda: _rectangles("grid_perimeter", "grid", "perimeter", range(1, 8), 4, 1),
    "count": _counts,
    "sides_to_scale": lambda: _rectangles("sides_to_scale", "scaled", "area perimeter", range(2, 10), 5, 2),
    "sides": lambda: _rectangles("sides", "free", "area perimeter", range(2, 10), 5, 3),
    "angle": _angles,
    "composite": _composites,
}


@cache
def _test_keys() -> frozenset[str]:
    """The keys held out, of all families: two that share figures share them."""
    first: dict[str, tuple[str, int, int, str]] = {}
    for each in (each for make in FAMILIES.values() for each in make()):
        first.setdefault(each.key, (each.key.partition("/")[0], each.level, each.answer, each.key))
    return frozenset(rank[-1] for i, rank in enumerate(sorted(first.values())) if i % HELD_OUT == 0)


@cache
def configurations(family: str) -> tuple[Configuration, ...]:
    """All of a family, of both splits."""
    return tuple(replace(each, held_out=each.key in _test_keys()) for each in FAMILIES[family]())
