"""Geometry3K with pictures: InterGPS's folders, a column of pictures, and pictures redrawn from the annotation."""

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from upside.tasks import load_task
from upside.tasks.geometry3k import redrawable
from upside.tasks.geometry3k.statements import missing, read_diagram

DATA = Path(__file__).parent.parent / "data/geometry3k"
FORMS = json.loads((DATA / "diagram_logic_forms_annot.json").read_text())
TRIANGLE = {"A": [0, 0], "B": [100, 0], "C": [0, 80], "D": [50, 0]}
SIDES = ["AB", "BC", "CA"]


def annotation(*statements, points=None, lines=SIDES, circles=()):
    return {
        "point_positions": TRIANGLE if points is None else points,
        "line_instances": lines,
        "circle_instances": list(circles),
        "diagram_logic_forms": list(statements),
    }


def reasons(*statements, problem="Find x.", **rest):
    diagram, found = read_diagram(annotation("Equals(LengthOf(Line(A, B)), x)", *statements, **rest))
    return found + missing(diagram, problem)


# ---- statements -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("Equals(LengthOf(Line(A, C)), x+21)", "x+21"),
        ("Equals(LengthOf(Line(A,C)), 3\\sqrt{2})", "3√(2)"),
        ("Equals(LengthOf(Line(A, C)), \\frac{3}{4}x+2)", "(3/4)x+2"),
        ("Equals(LengthOf(Line(A, C)), LengthOf(b))", "b"),
        ("Equals(MeasureOf(Angle(A, B, C)), 83)", "83°"),
        ("Equals(MeasureOf(Angle(A, B, C)), 4y-10)", "(4y-10)°"),
        ("Equals(MeasureOf(Angle(A, B, C)), MeasureOf(angle 4))", "4"),
        ("Equals(MeasureOf(Angle(A, B, C)), MeasureOf(Angle(11)))", "11"),
        ("Perpendicular(Line(A, B), Line(A, C))", ""),
        ("Equals(LengthOf(Line(A, B)), LengthOf(Line(B, C)))", ""),
        ("PointLiesOnLine(D, Line(A, B))", ""),
    ],
)
def test_statements_that_are_drawn(statement, text):
    diagram, found = read_diagram(annotation(statement))
    assert found == []
    assert diagram.facts[0].text == text
    plain = read_diagram(annotation())[0].draw()
    assert statement.startswith("PointLies") or diagram.draw().tobytes() != plain.tobytes()


@pytest.mark.parametrize(
    ("statements", "rest", "reason"),
    [
        (["Equals(AreaOf(Triangle(A, B, C)), 96)"], {}, "statement"),
        (["Equals(MeasureOf(Angle(A, B, C)), y^{2})"], {}, "statement"),
        (["PointLiesOnLine(A, Line(B, C)) C))"], {}, "statement"),
        ([], {"points": {**TRIANGLE, "B": [-1, -1]}}, "no_position"),
        ([], {"circles": ["A"]}, "circle"),
        (["Equals(MeasureOf(Angle(D, C, B)), 40)"], {}, "side"),
        (["PointLiesOnLine(C, Line(A, B))"], {}, "apart"),
        (["Perpendicular(Line(A, B), Line(B, C))"], {"points": {**TRIANGLE, "C": [0, 500]}}, None),
        ([], {"problem": "Find x in \\triangle A B Z."}, "named"),
        ([], {"problem": "Find x if p \\parallel q."}, "named"),
        ([], {"problem": "Find m \\angle 3."}, "named"),
        ([], {"problem": "How far, x, is it from Rome to Oslo?"}, "named"),
        ([], {"problem": "Find y."}, "asked"),
        ([], {"problem": "If A B = 3 y, find x."}, None),
        ([], {"problem": "A circle has its center at A. Find x."}, None),
        ([], {"problem": "Find the area of the shaded part."}, "shaded"),
    ],
)
def test_when_a_drawing_is_not_enough(statements, rest, reason):
    assert reasons(*statements, **rest)[:1] == ([reason] if reason else [])


def test_lengths_and_angles_stand_where_they_belong():
    """The label of a side covers pixels next to the middle of that side."""
    plain = read_diagram(annotation())[0].draw()
    labelled = read_diagram(annotation("Equals(LengthOf(Line(A, B)), 42)"))[0].draw()
    box = Image.eval(plain.convert("L"), lambda v: 255 - v).getbbox()
    middle = (box[0] + box[2]) / 2
    changed = [
        (x, y)
        for x in range(plain.width)
        for y in range(plain.height)
        if plain.getpixel((x, y)) != labelled.getpixel((x, y))
    ]
    assert abs(sum(x for x, _ in changed) / len(changed) - middle) < 20
    assert max(y for _, y in changed) < 60  # A B is the upper side


def test_the_same_diagram_is_the_same_picture():
    made = [read_diagram(FORMS["1"])[0] for _ in range(2)]
    assert repr(made[0]) == repr(made[1])
    assert made[0].draw().tobytes() == made[1].draw().tobytes()
    assert made[0].draw().mode == "RGB"


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"point_positions": {"A": [1]}, "diagram_logic_forms": []},
        {"point_positions": {"A": [0, float("nan")]}, "diagram_logic_forms": []},
        {"point_positions": {"A": [0, 10**400]}, "diagram_logic_forms": []},
    ],
)
def test_a_broken_annotation_is_named(tmp_path, broken):
    shutil.copy(DATA / "test.jsonl", tmp_path)
    (tmp_path / "diagram_logic_forms_annot.json").write_text(json.dumps({"2401": broken}))
    with pytest.raises(ValueError, match=r"test\.jsonl, line 1: .*point"):
        load_task("geometry3k_vision", path=tmp_path, redraw=True)


# ---- the data set ---------------------------------------------------------------------------------------------------


def test_redrawn_from_the_annotation():
    task = load_task("geometry3k_vision", path=DATA, redraw=True)
    problems = {p.metadata["file"] + str(p.metadata["row"]): p for s in ("train", "test") for p in task.problems(s)}
    assert problems["train.jsonl2"].prompt == (
        "Use parallelogram M N P R to find y.\nPlease reason step by step, and put your final answer within \\boxed{}."
    )
    image = problems["train.jsonl2"].images[0].load()
    assert (image.mode, max(image.size)) == ("RGB", 408)
    counts = redrawable(DATA)
    assert counts["drawn"] == len(problems)
    assert sum(counts.values()) == 12
    assert task.dropped == {f"not_drawn_{reason}": n for reason, n in counts.items() if reason != "drawn"}


def intergps(folder):
    """A copy as InterGPS publishes it: a folder for each problem."""
    for i, (split, answer) in enumerate([("train", "B"), ("train", "A"), ("val", "A"), ("test", "C")]):
        own = folder / split / str(i)
        own.mkdir(parents=True)
        data = {"problem_text": f"Find x{i}.", "choices": ["5", "6", "7", "8"], "answer": answer, "id": i}
        (own / "data.json").write_text(json.dumps(data))
        forms = annotation("Equals(LengthOf(Line(A, B)), x)")
        forms["diagram_logic_form"] = forms.pop("diagram_logic_forms")
        (own / "logic_form.json").write_text(json.dumps(forms))
        Image.new("RGB", (30, 20 + i), "white").save(own / "img_diagram.png")
    return folder


def test_intergps_folders(tmp_path):
    task = load_task("geometry3k_vision", path=intergps(tmp_path))
    train = sorted(task.problems("train"), key=lambda p: p.prompt)
    assert [(p.answer, p.images[0].load().size) for p in train] == [("6", (30, 20)), ("5", (30, 21))]
    assert [p.answer for p in task.problems("test")] == ["7"]
    drawn = load_task("geometry3k_vision", path=tmp_path, redraw=True).problems("test")[0].images[0]
    assert drawn.load().width == 408
    assert redrawable(tmp_path) == {"drawn": 4}
    text = load_task("geometry3k", path=tmp_path).problems("test")[0]
    assert "The diagram shows:\nEquals(LengthOf(Line(A, B)), x)" in text.prompt
    (tmp_path / "train/1/img_diagram.png").unlink()
    with pytest.raises(ValueError, match=r"train, problem 2: no picture: neither a column 'images' nor train/1/"):
        load_task("geometry3k_vision", path=tmp_path)


def test_pictures_beside_the_rows(tmp_path):
    for name in ("train.jsonl", "test.jsonl"):
        shutil.copy(DATA / name, tmp_path)
    for i in [*range(8), *range(2401, 2405)]:
        folder = tmp_path / ("train" if i < 2401 else "test") / str(i)
        folder.mkdir(parents=True)
        Image.new("RGB", (20, 20), (i % 256, 0, 0)).save(folder / "img_diagram.png")
    task = load_task("geometry3k_vision", path=tmp_path)
    assert len(task.problems("train")) == 8
    problem = next(p for p in task.problems("test") if "Circle O" in p.prompt)
    assert problem.images[0].load().getpixel((0, 0)) == (2402 % 256, 0, 0)


def test_rewards_of_the_vision_form():
    task = load_task("geometry3k_vision", path=DATA, redraw=True)
    problem = next(p for p in task.problems("train") if "parallelogram M N P R" in p.prompt)
    responses = ["so y is \\boxed{6.45}", "so y is \\boxed{7}", "so y is 6.45"]
    assert [task.verify(problem, response).score for response in responses] == [1.0, 0.1, 0.0]


def test_redraw_needs_a_copy():
    with pytest.raises(ValueError, match="redraw: True must be true or false, and true needs a local copy: set path"):
        load_task("geometry3k_vision", redraw=True)
    with pytest.raises(ValueError, match="has no option 'redraw'"):
        load_task("geometry3k", redraw=True)
