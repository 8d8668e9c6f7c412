"""The task `shapes`: pixels, configurations held out, answers against an independent reading, rules right and wrong."""

import hashlib
import random
import re
import time
from collections import Counter

import pytest

from upside.tasks import Task, load_task
from upside.tasks.shapes import FAMILIES, LEVELS, Shape, Shapes, rules, solution, style, worked
from upside.tasks.shapes.canvas import GLYPHS, Canvas
from upside.tasks.shapes.families import configurations
from upside.tasks.shapes.figures import KINDS

TASK = Shapes()
SAMPLE = TASK.problems("train", 1500, 3) + TASK.problems("test", 500, 3)

PIXELS = {
    "grid": ((3, 5), "568d12989cd8"),
    "scaled": ((3, 5), "9a09501d987e"),
    "free": ((4, 9), "94c433b6357f"),
    "angle": ((20, 45, 115), "cd0c12e91857"),
    "angle_free": ((60, 85, 35), "85347068e79c"),
    "count": ((4, 3), "7167d9dc50ff"),
    "corner": ((5, 3, 2, 4), "6212911c3783"),
    "frame": ((7, 8, 3, 6), "181d1450bffa"),
}


def shape_of(problem):
    return problem.images[0].figure


def pixels(shape):
    return hashlib.sha256(shape.draw().tobytes()).hexdigest()[:12]


def value(text):
    """An independent reading of ``4+2=6;2*6=12``: the last result, each step checked."""
    for step in text.split(";"):
        left, right = step.split("=")
        assert re.fullmatch(r"\d+[-+*]\d+", left)
        assert eval(left) == int(right), step
    return right


def test_is_a_task():
    assert isinstance(TASK, Task)
    assert isinstance(load_task("shapes", families=["grid_area"], levels=[1]), Shapes)
    assert load_task("shapes", families="sides,count").families == ("sides", "count")


@pytest.mark.parametrize("kind", PIXELS)
def test_the_pixels_are_these(kind):
    numbers, expected = PIXELS[kind]
    assert pixels(Shape(kind, numbers, 7)) == expected
    assert pixels(Shape(kind, numbers, 7)) != pixels(Shape(kind, numbers, 8))


def test_each_kind_has_its_pixels_pinned():
    assert set(PIXELS) == set(KINDS)


def test_a_number_is_printed_as_its_glyphs():
    canvas = Canvas()
    canvas.label("47", 20, 30)
    rows = [
        "".join("#" if canvas.image.getpixel((x, y)) == (0, 0, 0) else "." for x in range(15, 26))
        for y in range(27, 34)
    ]
    assert rows == [f"{four}.{seven}" for four, seven in zip(GLYPHS["4"], GLYPHS["7"], strict=True)]
    assert len(set(GLYPHS.values())) == 10


def test_a_grid_figure_covers_its_cells():
    """Counted off the pixels: the fill of 3 by 5 cells of 8 pixels, between grid lines and outline."""
    image = Shape("grid", (3, 5), 1).draw()
    counts = Counter(image.getdata() if not hasattr(image, "get_flattened_data") else image.get_flattened_data())
    fills = [colour for colour in counts if colour not in ((255, 255, 255), (0, 0, 0), (205, 205, 205))]
    assert [counts[colour] for colour in fills] == [7 * 7 * 15]


def test_digits_stand_clear_of_lines_and_of_each_other():
    """With numbers printed, nothing but white (or a fill) becomes black, as many pixels as the glyphs have."""
    dots = {digit: sum(row.count("#") for row in glyph) for digit, glyph in GLYPHS.items()}
    for problem in SAMPLE[:600]:
        shape = shape_of(problem)
        if shape.kind in ("grid", "count"):
            continue
        numbers = shape.numbers[:2] if shape.kind.startswith("angle") else shape.numbers
        expected = sum(dots[digit] for number in numbers for digit in str(number))
        with_digits, without = shape.draw(), Shape(shape.kind, shape.numbers, shape.variant, blind="digits").draw()
        changed = [(a, b) for a, b in zip(_colours(without), _colours(with_digits), strict=True) if a != b]
        assert len(changed) == expected, problem.id
        assert set(changed) == {((255, 255, 255), (0, 0, 0))}, problem.id


def _colours(image):
    data = image.tobytes()
    return list(zip(data[::3], data[1::3], data[2::3], strict=True))


def test_blind_pictures_tell_nothing():
    plain, figure, digits = (Shapes(blind=blind).problems("test", 40) for blind in (None, "figure", "digits"))
    assert [(p.id, p.prompt, p.answer) for p in plain] == [(p.id, p.prompt, p.answer) for p in figure]
    assert {p.images[0].load().tobytes() for p in figure} == {b"\xff" * 64 * 64 * 3}
    for problem, without in zip(plain, digits, strict=True):
        printed = shape_of(problem).kind not in ("grid", "count")
        assert (problem.images[0].load().tobytes() != without.images[0].load().tobytes()) == printed


def test_without_digits_a_figure_not_to_scale_says_nothing_of_its_numbers():
    """What is left is drawn from chance that does not depend on the numbers."""
    sizes = Counter()
    for numbers in ((2, 9), (9, 2)):
        for variant in range(300):
            image = Shape("free", numbers, variant, blind="digits").draw()
            box = image.convert("L").point(lambda v: 255 * (v < 255)).getbbox()
            sizes[numbers] += box[2] - box[0] - (box[3] - box[1])
    assert abs(sizes[2, 9] - sizes[9, 2]) / 300 < 4


def test_size_enlarges_each_pixel():
    small, large = (Shapes(size=size).problems("test", 1)[0].images[0].load() for size in (64, 128))
    assert large.size == (128, 128)
    assert large.resize((64, 64), resample=0).tobytes() == small.tobytes()


# ---- splits ---------------------------------------------------------------------------------------------------------


def test_no_configuration_is_in_both_splits():
    train, test = ({p.metadata["configuration"] for p in part} for part in (SAMPLE[:1500], SAMPLE[1500:]))
    assert not train & test
    for family in FAMILIES:
        sides = {}
        for each in configurations(family):
            assert sides.setdefault(each.key, each.held_out) == each.held_out
        shares = sum(sides.values()) / len(sides)
        assert 0.28 < shares < 0.37, family
    turned = {(e.numbers, e.held_out) for e in configurations("sides")}
    assert all(((b, a), held_out) in turned for (a, b), held_out in turned)
    same = {e.key: e.held_out for e in configurations("grid_area")}
    assert same == {e.key: e.held_out for e in configurations("grid_perimeter")}


@pytest.mark.parametrize(
    ("family", "keys", "test"),
    [
        ("grid_area", 28, 9), ("grid_perimeter", 28, 9), ("count", 63, 21), ("sides_to_scale", 36, 12),
        ("sides", 36, 12), ("angle", 61, 21), ("composite", 2062, 687),
    ],
)  # fmt: skip
def test_how_many_configurations(family, keys, test):
    found = {each.key: each.held_out for each in configurations(family)}
    assert (len(found), sum(found.values())) == (keys, test)


def test_what_one_kind_holds_out_another_may_train():
    """As docs/shapes.md says: only the combination of kind and numbers is held out."""

    def pairs(family, held_out):
        return {frozenset(each.numbers) for each in configurations(family) if each.held_out == held_out}

    assert pairs("sides", True) <= pairs("sides_to_scale", False)
    assert pairs("sides_to_scale", True) <= pairs("sides", False)
    known = pairs("sides", False) | pairs("sides_to_scale", False)
    assert (len(pairs("grid_area", True)), len(pairs("grid_area", True) & known)) == (9, 7)


def test_fixed_by_seed_and_distinct():
    first, again, other = (TASK.problems("train", 300, seed) for seed in (1, 1, 2))
    assert first == again
    assert [p.id for p in first] != [p.id for p in other]
    assert len({p.id for p in first}) == 300


def test_levels_and_families_are_drawn_equally():
    counts = Counter(p.level for p in SAMPLE)
    assert all(abs(counts[level] - 400) < 80 for level in LEVELS)
    assert {p.metadata["family"] for p in SAMPLE} == set(FAMILIES)
    assert {p.level for p in Shapes("sides", levels=[4, 5]).problems("train", 50)} == {4}


# ---- answers and rules ----------------------------------------------------------------------------------------------


def expected(shape, question):
    """The answer as geometry has it, independent of the package."""
    numbers = shape.numbers
    if question == "circles?":
        return numbers[0]
    if question == "angle?":
        return 180 - numbers[0] - numbers[1]
    if question == "perimeter?":
        return sum(numbers) * 2
    areas = numbers[0] * numbers[1], numbers[2] * numbers[3] if len(numbers) == 4 else 0
    return areas[0] - areas[1] if shape.kind == "frame" else sum(areas)


def test_answers_and_worked_solutions():
    seen = Counter()
    for problem in SAMPLE:
        shape = shape_of(problem)
        assert int(problem.answer) == expected(shape, problem.prompt), problem.id
        right, wrong = rules(problem)
        for rule in right + wrong:
            text = worked(problem, rule)
            body, answer = text.split("#")
            assert value(body) == answer
            assert TASK.verify(problem, text).correct == (rule in right), (problem.id, text)
            assert style(text) == rule
            assert len(text) <= 72
            seen[problem.metadata["family"], rule in right] += 1
        assert TASK.verify(problem, solution(problem)).score == 1.0
        assert TASK.answer_of(solution(problem)) == problem.answer
    assert all(seen[family, side] for family in FAMILIES for side in (True, False))


def test_circles_by_row_are_those_drawn():
    shape = Shape("count", (4, 3), 5)
    assert sum(shape.circles_by_row()) == 4
    assert len(shape.circles_by_row()) == 4


@pytest.mark.parametrize(
    ("response", "name"),
    [
        ("#12", "direct"), ("4+2=6#6", "sum"), ("4*3=12#12", "product"), ("4+4=8;8+4=12#12", "chain"),
        ("4+3=7;2*7=14#14", "double"), ("30+40=70;180-70=110#110", "rest"), ("30+40=70;360-70=290#290", "full_turn"),
        ("180-30=150;150-40=110#110", "twice"), ("180-30=150#150", "one"), ("4*2=8;3*2=6;8+6=14#14", "add_parts"),
        ("4*2=8;3*2=6;8-6=2#2", "take_parts"), ("4*2=8", "none"), ("", "none"), ("4*2=8;#8", "other"),
        ("four#4", "other"), ("4-2=2;2*2=4#4", "other"), ("1+1=2;" * 200_000 + "#2", "other"),
    ],
)  # fmt: skip
def test_style(response, name):
    assert style(response) == name


def test_a_rule_that_does_not_apply():
    problem = next(p for p in SAMPLE if p.metadata["family"] == "angle")
    with pytest.raises(ValueError, match=r"the rule 'add_parts' does not apply; try one of"):
        worked(problem, "add_parts")
    with pytest.raises(ValueError, match="has no drawn shape"):
        solution(load_task("arithmetic").problems("train", 1)[0])


# ---- chance ---------------------------------------------------------------------------------------------------------


def test_chance_is_the_share_of_the_most_frequent_answer():
    chance = TASK.chance("test")
    assert chance == pytest.approx(
        {"area": 0.070, "perimeter": 0.160, "circles": 0.143, "angle": 0.063, "all": 0.098}, abs=0.001
    )
    drawn = TASK.problems("test", 4000, 1)
    counts = Counter((p.prompt, p.answer) for p in drawn)
    best = {q: max(n for (prompt, _), n in counts.items() if prompt == q) for q, _ in counts}
    assert sum(best.values()) / len(drawn) == pytest.approx(chance["all"], abs=0.02)
    assert Shapes("count", levels=[1]).chance("train") == {"circles": 0.25, "all": 0.25}


def test_bad_options():
    with pytest.raises(ValueError, match=r"shapes: families=\['cubes'\] must be a non-empty choice"):
        Shapes(families=["cubes"])
    with pytest.raises(ValueError, match=r"shapes: levels=\[1\] hold none of \['angle'\], which have \[3, 4, 5\]"):
        Shapes(families="angle", levels=[1])
    with pytest.raises(ValueError, match="shapes: levels="):
        Shapes(levels=[9])
    with pytest.raises(ValueError, match="shapes: size=100"):
        Shapes(size=100)
    with pytest.raises(ValueError, match="shapes: blind='all'"):
        Shapes(blind="all")
    with pytest.raises(ValueError, match="did you mean 'families'"):
        load_task("shapes", family="sides")


def test_drawing_is_fast_enough_for_fresh_pictures():
    """10,000 in under 10 s; here a tenth of it, processor time."""
    rng, start = random.Random(0), time.process_time()
    for _ in range(1000):
        TASK.draw(rng, "train").images[0].load()
    assert time.process_time() - start < 1.0
