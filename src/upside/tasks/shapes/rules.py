"""Worked solutions of shape problems by named rules, right and wrong ones, and the rule a response follows.

A solution is one operation after the other and the answer, as in the bundled reasoner: ``4+2=6;2*6=12#12``.

| rule | form | right for | wrong for |
|---|---|---|---|
| `product` | ``4*3=12`` | area | perimeter; the first part of a composite alone |
| `chain` | ``4+4=8;8+4=12`` | area by rows, perimeter by its sides, circles row by row | composite: all numbers added |
| `double` | ``4+3=7;2*7=14`` | perimeter | area |
| `sum` | ``4+3=7`` | | area; perimeter (one pair of sides); angle; circles (squares too) |
| `rest` | ``30+40=70;180-70=110`` | angle | |
| `twice` | ``180-30=150;150-40=110`` | angle | |
| `full_turn` | ``30+40=70;360-70=290`` | | angle |
| `one` | ``180-30=150`` | | angle |
| `add_parts` | ``4*2=8;3*2=6;8+6=14`` | two rectangles | a hole |
| `take_parts` | ``4*2=8;3*2=6;8-6=2`` | a hole | two rectangles |
| `direct` | nothing but the answer | (a guess) | |
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate

from upside.tasks.arithmetic import apply
from upside.tasks.base import Problem
from upside.tasks.pictures import Drawn
from upside.tasks.shapes.figures import Shape

RIGHT: dict[str, tuple[str, ...]] = {
    "area": ("product", "chain"),
    "perimeter": ("double", "chain"),
    "angle": ("rest", "twice"),
    "circles": ("chain",),
    "corner": ("add_parts",),
    "frame": ("take_parts",),
}
"""Question, or kind of composite -> rules that lead to the answer; the first is the usual one."""

WRONG: dict[str, tuple[str, ...]] = {
    "area": ("sum", "double"),
    "perimeter": ("sum", "product"),
    "angle": ("sum", "full_turn", "one"),
    "circles": ("sum",),
    "corner": ("product", "take_parts", "chain"),
    "frame": ("product", "add_parts", "chain"),
}

LONGEST = 200
"""Characters of a worked solution; what is longer follows no rule."""

_STEP = re.compile(r"(\d{1,4})([-+*])(\d{1,4})=(\d{1,4})", re.ASCII)
_FORMS = {
    "": "direct", "+": "sum", "*": "product", "+*": "double", "--": "twice", "-": "one", "**+": "add_parts",
    "**-": "take_parts",
}  # fmt: skip


def shape_of(problem: Problem) -> Shape:
    """The figure of a problem. Raises ValueError for a problem of another task."""
    picture = problem.images[0] if problem.images else None
    if not isinstance(picture, Drawn) or not isinstance(picture.figure, Shape):
        raise ValueError(f"problem {problem.id!r} has no drawn shape; it is not of the task shapes")
    return picture.figure


def _topic(problem: Problem) -> str:
    kind = shape_of(problem).kind
    return kind if kind in RIGHT else problem.prompt.rstrip("?")


def rules(problem: Problem) -> tuple[list[str], list[str]]:
    """(right rules, wrong rules) that apply; a wrong rule that hits the answer by chance is left out."""
    topic = _topic(problem)
    right = [rule for rule in RIGHT[topic] if _steps(problem, rule)]
    steps = {rule: _steps(problem, rule) for rule in WRONG[topic]}
    wrong = [rule for rule, found in steps.items() if found and _result(found) != problem.answer]
    return right, wrong


def solution(problem: Problem) -> str:
    """The worked solution by the usual rule."""
    return worked(problem, RIGHT[_topic(problem)][0])


def worked(problem: Problem, rule: str) -> str:
    """The solution by a rule, right or wrong: ``4*3=12#12``. Raises ValueError where the rule does not apply."""
    topic = _topic(problem)
    steps = _steps(problem, rule) if rule in RIGHT[topic] + WRONG[topic] else []
    if not steps:
        raise ValueError(f"problem {problem.id!r}: the rule {rule!r} does not apply; try one of {rules(problem)}")
    return f"{';'.join(steps)}#{_result(steps)}"


def _result(steps: Sequence[str]) -> str:
    return steps[-1].rpartition("=")[2]


def _steps(problem: Problem, rule: str) -> list[str]:
    shape, topic = shape_of(problem), _topic(problem)
    a, b, *rest = shape.numbers
    if rule == "product":
        return [_step(a, "*", b)]
    if rule == "sum":
        return [_step(a, "+", b)]
    if rule == "double":
        return [_step(a, "+", b), _step(2, "*", a + b)]
    if rule == "chain":
        return _added(_terms(shape, topic))
    if rule == "twice":
        return [_step(180, "-", a), _step(180 - a, "-", b)]
    if rule == "one":
        return [_step(180, "-", a)]
    if rule in ("rest", "full_turn"):
        return [_step(a, "+", b), _step(180 if rule == "rest" else 360, "-", a + b)]
    if rule in ("add_parts", "take_parts"):
        sign, whole, part = "+" if rule == "add_parts" else "-", a * b, rest[0] * rest[1]
        if sign == "+" or whole > part:
            return [_step(a, "*", b), _step(rest[0], "*", rest[1]), _step(whole, sign, part)]
    return []


def _terms(shape: Shape, topic: str) -> list[int]:
    """What `chain` adds up. An area by rows needs three rows: two would look like `sum`."""
    if topic == "circles":
        return shape.circles_by_row()
    a, b = shape.numbers[:2]
    if topic == "perimeter":
        return [a, b, a, b]
    if topic == "area":
        return [max(a, b)] * min(a, b) if min(a, b) >= 3 else []
    return list(shape.numbers)


def _added(terms: Sequence[int]) -> list[str]:
    return [_step(before, "+", term) for before, term in zip(accumulate(terms), terms[1:], strict=False)]


def _step(left: int, sign: str, right: int) -> str:
    return f"{left}{sign}{right}={apply(left, sign, right)}"


def style(response: str) -> str:
    """The rule that a response follows by its form, whatever its numbers: a name of the module's table, "other" for
    another form, "none" without an answer."""
    body, mark, _ = response.rpartition("#")
    if not mark:
        return "none"
    if len(body) > LONGEST:
        return "other"
    steps = [_STEP.fullmatch(part) for part in body.split(";")] if body else []
    if any(step is None for step in steps):
        return "other"
    signs = "".join(step[2] for step in steps if step)
    if signs == "+-" and steps[1]:
        return {"180": "rest", "360": "full_turn"}.get(steps[1][1], "other")
    if len(signs) > 1 and set(signs) == {"+"}:
        return "chain"
    return _FORMS.get(signs, "other")
