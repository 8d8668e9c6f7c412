"""Rows of Geometry3K, in its text form and with pictures, and InterGPS's folders of one problem each.

The text form puts InterGPS's statements about the diagram after the problem. With pictures a row keeps its column
`images`, or takes ``<split>/<id>/img_diagram.png`` of the copy; redrawn, it takes the picture that the statements and
the points' positions give (`upside.tasks.geometry3k.statements`), and a row for which they do not suffice is left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from upside.tasks.geometry3k.statements import Diagram, missing, read_diagram
from upside.tasks.pictures import Drawn
from upside.tasks.readers import Row, Source, file_source

__all__ = ["Diagram", "as_text", "folder_sources", "forms_of", "redrawable", "with_picture"]

SPLITS = ("train", "val", "test")
FORMS = "diagram_logic_forms_annot.json"
PICTURE = "img_diagram.png"


def forms_of(local: Path | None) -> Mapping[str, Any]:
    """InterGPS's annotations of the diagrams: id -> …, from the file beside the rows; {} when there is none."""
    if local is None:
        return {}
    file = _folder(local) / FORMS
    if not file.is_file():
        return {}
    found = _json(file)
    if not isinstance(found, dict):
        raise ValueError(f"{file}: expected an object of id -> annotation, got {type(found).__name__}")
    return found


def _folder(local: Path) -> Path:
    return local if local.is_dir() else local.parent


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: not valid JSON ({error})") from None


def as_text(row: Mapping[str, Any], forms: Mapping[str, Any]) -> Mapping[str, Any]:
    """The text form: the problem, then what the diagram shows as statements ("Equals(LengthOf(Line(T, R)), x+21)")."""
    statements = row.get("diagram_logic_form")
    if statements is None:
        annotation = forms.get(str(row.get("id")))
        statements = annotation.get("diagram_logic_forms") if isinstance(annotation, Mapping) else None
    if not isinstance(statements, list) or not all(isinstance(s, str) for s in statements):
        raise ValueError(
            f"no statements about the diagram, without which a text cannot be solved: put InterGPS's "
            f"{FORMS} beside the file, or give a column 'diagram_logic_form' (a list of texts)"
        )
    problem = row.get("problem")
    if not isinstance(problem, str) or not statements:
        return row
    text = problem.replace("<image>", "").strip()
    return {**row, "problem": f"{text}\n\nThe diagram shows:\n" + "\n".join(dict.fromkeys(statements))}


def with_picture(
    row: Mapping[str, Any], local: Path | None, forms: Mapping[str, Any], redraw: bool
) -> Mapping[str, Any] | str:
    """The row with its column `images`. redraw: from the annotation, or the reason why that does not suffice."""
    if redraw:
        diagram, reasons = _diagram(row, forms)
        return f"not_drawn_{reasons[0]}" if reasons else {**row, "images": [Drawn(diagram)]}
    if row.get("images") is not None or local is None:
        return row
    places = [f"{split}/{row.get('id')}/{PICTURE}" for split in SPLITS]
    found = next((place for place in places if (_folder(local) / place).is_file()), None)
    if found is None:
        raise ValueError(
            f"no picture: neither a column 'images' nor {places[0]} (or val, test) in {_folder(local)}; put InterGPS's "
            f"folders there, or set redraw=true"
        )
    return {**row, "images": found}


def _diagram(row: Mapping[str, Any], forms: Mapping[str, Any]) -> tuple[Diagram, list[str]]:
    """(diagram, reasons why its drawing cannot stand in for the original)."""
    annotation = row if "point_positions" in row else forms.get(str(row.get("id")))
    if not isinstance(annotation, Mapping):
        raise ValueError(
            f"no annotation of the diagram, from which it is redrawn: put InterGPS's {FORMS} beside the file "
            f"(rows need its 'id')"
        )
    diagram, reasons = read_diagram(annotation)
    return diagram, reasons + missing(diagram, str(row.get("problem", "")))


def redrawable(path: str | Path) -> Counter[str]:
    """Of a local copy, all splits: "drawn" -> how many problems can be redrawn, reason -> how many cannot (the first of
    their reasons)."""
    local = Path(path)
    forms = forms_of(local)
    files = [file_source(file) for file in sorted(local.glob("*.jsonl"))] if local.is_dir() else [file_source(local)]
    counts: Counter[str] = Counter()
    for source in files or [source for split in SPLITS for source in folder_sources(local, split)]:
        for number, row in source.read():
            try:
                _, reasons = _diagram(row, forms)  # type: ignore[arg-type]  # files give mappings only
            except ValueError as error:
                raise ValueError(f"{source.at(number)}: {error}") from None
            counts[reasons[0] if reasons else "drawn"] += 1
    return counts


# ---- InterGPS's own layout --------------------------------------------------------------------------------------


def folder_sources(path: Path, split: str) -> list[Source]:
    """The source of ``<split>/<id>/data.json``, with the statements of `logic_form.json` beside it; [] without any."""
    files = sorted(path.glob(f"{split}/*/data.json"), key=lambda file: (len(file.parent.name), file.parent.name))
    if not files:
        return []
    return [Source(str(path / split), split, "problem", lambda: _problems(files), path)]


def _problems(files: list[Path]) -> Iterator[Row]:
    for number, file in enumerate(files, start=1):
        data = _json(file)
        letters = dict(zip("ABCDEFGH", data.get("choices") or (), strict=False)) if isinstance(data, dict) else {}
        if not letters or data.get("answer") not in letters:
            raise ValueError(f"{file}: expected problem_text, choices and the letter of one as answer")
        row = {"id": file.parent.name, "problem": data.get("problem_text"), "answer": letters[data["answer"]]}
        logic = file.with_name("logic_form.json")
        yield number, {**(_json(logic) if logic.is_file() else {}), **row}
