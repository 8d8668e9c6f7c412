from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from upside.analysis.blocks import (
    Chart,
    Column,
    Facts,
    Findings,
    Groups,
    Interval,
    Prose,
    Section,
    Series,
    Table,
    load,
    save,
)

GROUP = {
    "step": 1, "group": 0, "prompt": "1+1", "sentence": "", "tags": ["dead"],
    "responses": [{"text": "</script>", "values": {"reward": 1.0}, "why": ""}],
}  # fmt: skip
SECTION = Section(
    "one",
    "One",
    [
        Table(
            "t", [Column("a"), Column("b", "percent", help="h")], [["x", Interval(0.5, 0.25, 0.75)], [None, True]], "n"
        ),
        Chart("c", "x", "y", [Series("s", [1, 2], [0.5, None], [0.25, None], [0.75, None], key="k")], "points", True),
        Facts([["Task", "sums", "small print"]], headline=1),
        Prose(["said"], emphasis=True),
        Findings([{"check": "c", "level": "ok", "steps": [1]}]),
        Groups(
            "run",
            [Column("reward", "number")],
            [GROUP],
            3,
            "n",
            {"dead": "m"},
        ),
    ],
    intro="i",
    folded=True,
)


def test_sections_come_back_as_they_were(tmp_path: Path) -> None:
    save([SECTION], tmp_path / "s.json")
    assert load(tmp_path / "s.json") == [SECTION]


def test_numbers_that_json_lacks_become_null_and_numpys_become_plain(tmp_path: Path) -> None:
    odd = [float("nan"), float("inf"), np.float32(0.5), np.int64(3), np.bool_(True), np.float64("nan")]
    save([Section("s", "S", [Chart("c", "x", "y", [Series("x", list(range(6)), odd)])])], tmp_path / "s.json")
    assert load(tmp_path / "s.json")[0].blocks[0].series[0].y == [None, None, 0.5, 3, True, None]


def section(block: str) -> str:
    return f'[{{"block": "Section", "id": "a", "title": "b", "blocks": [{block}]}}]'


def chart(series: str) -> str:
    return section(f'{{"block": "Chart", "title": "c", "x_label": "x", "y_label": "y", "series": [{series}]}}')


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1]",
        '"s"',
        "3",
        "null",
        '[{"block": "os"}]',
        '[{"block": "Section"}]',
        '[{"block": "Prose", "paragraphs": []}]',
        '[{"block": "Section", "id": "a", "title": "b", "blocks": ["text"]}]',
        '[{"block": "Section", "id": "a", "title": "b", "nothing": 1}]',
        '[{"block": "Section", "id": "a", "title": ["b"]}]',
        '[{"block": "Section", "id": "a", "title": "b", "blocks": 3}]',
        section('{"block": "Prose", "paragraphs": 3}'),
        section('{"block": "Prose", "paragraphs": [{"a": 1}]}'),
        section('{"block": "Table", "title": "t", "columns": ["a"], "rows": []}'),
        section('{"block": "Table", "title": "t", "columns": [{"block": "Column", "name": "a"}], "rows": [[1, 2]]}'),
        section('{"block": "Table", "title": "t", "columns": [{"block": "Column", "name": "a"}], "rows": [[[1]]]}'),
        section(
            '{"block": "Table", "title": "t", "columns": [{"block": "Column", "name": "a", "kind": "x"}], "rows": []}'
        ),
        chart('{"block": "Series", "name": "s", "x": [0, 1], "y": [1]}'),
        chart('{"block": "Series", "name": "s", "x": [0], "y": ["one"]}'),
        chart('{"block": "Series", "name": ["s"], "x": [0], "y": [1]}'),
        section('{"block": "Groups", "source": "s", "columns": [], "groups": [{"step": 1}]}'),
    ],
)
def test_anything_else_is_an_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(ValueError, match=r"s\.json: no sections of an Upside analysis"):
        load(tmp_path / "s.json")


def test_a_file_is_plain_json(tmp_path: Path) -> None:
    save([Section("s", "S", [Prose(["é </script>"])])], tmp_path / "s.json")
    assert json.loads((tmp_path / "s.json").read_text())[0]["blocks"][0]["paragraphs"] == ["é </script>"]
