"""The public data sets of the papers by name: where they are, which columns count, how they are asked and judged.

A preset reads the hub, or with `path` (a file or a folder) or the environment variable UPSIDE_DATA (a folder that
holds NAME/…) a local copy, with the columns of the hub or of the files that the sources publish. In a folder the
first of the words train, test, val in a file's path says which split it is.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from upside.tasks.fields import whole_numbers
from upside.tasks.geometry3k import as_text, folder_sources, forms_of, with_picture
from upside.tasks.hub import HubPart, part_source
from upside.tasks.readers import ENDINGS, Change, Source, file_source
from upside.tasks.row_options import RowOptions
from upside.tasks.rows import RowTask, gold_answer

_SPLIT_WORD = re.compile(r"(?<![a-z])(train|test|val)", re.IGNORECASE)
PEOPLE = range(2, 9)
TEST_SHARE = 0.01
"""Of presets without a test set of their own, as in the papers' recipes."""


@dataclass(frozen=True)
class Preset:
    """One data set. hub: its id there; train, test: its parts there (a set without train is for evaluation only).
    problems: how many, in words. options: of `RowOptions`. licence, url: of the source."""

    name: str
    hub: str
    train: Sequence[HubPart]
    test: Sequence[HubPart]
    problems: str
    licence: str
    url: str
    options: Mapping[str, Any] = field(default_factory=dict)


def _math(**columns: Any) -> dict[str, Any]:
    return {"template": "boxed", "verifier": "math", "conflicts": "drop", **columns}


_TRAIN, _TEST = (HubPart("train"),), (HubPart("test"),)
_MATH_SUBJECTS = (
    "algebra", "counting_and_probability", "geometry", "intermediate_algebra", "number_theory", "prealgebra",
    "precalculus",
)  # fmt: skip
_PROBLEM, _MAA = ("problem", "question"), "problems © MAA; for evaluation, not to be passed on"

PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            "gsm8k", "openai/gsm8k", (HubPart("train", "main"),), (HubPart("test", "main"),), "7,473 + 1,319",
            "MIT", "https://arxiv.org/abs/2110.14168", _math(prompt="question"),
        ),
        Preset(
            "math", "EleutherAI/hendrycks_math", tuple(HubPart("train", s) for s in _MATH_SUBJECTS),
            tuple(HubPart("test", s) for s in _MATH_SUBJECTS), "7,500 + 5,000", "MIT",
            "https://arxiv.org/abs/2103.03874",
            _math(prompt="problem", answer="solution", level="level", family="type"),
        ),
        Preset(
            "math500", "HuggingFaceH4/MATH-500", (), _TEST, "0 + 500", "MIT", "https://arxiv.org/abs/2305.20050",
            _math(prompt="problem", level="level", family="subject"),
        ),
        Preset(
            "aime24", "HuggingFaceH4/aime_2024", (), _TRAIN, "0 + 30", _MAA, "https://maa.org/maa-invitational-competitions",
            _math(prompt=_PROBLEM),
        ),
        Preset(
            "aime25", "yentinglin/aime_2025", (), _TRAIN, "0 + 30", _MAA, "https://maa.org/maa-invitational-competitions",
            _math(prompt=_PROBLEM),
        ),
        Preset(
            "amc23", "knoveleng/AMC-23", (), _TRAIN, "0 + 40", _MAA, "https://maa.org/student-programs/amc",
            _math(prompt=_PROBLEM),
        ),
        Preset(
            "minerva", "knoveleng/Minerva-Math", (), _TRAIN, "0 + 272", "see the source (MIT OpenCourseWare)",
            "https://arxiv.org/abs/2206.14858", _math(prompt=_PROBLEM, answer=("solution", "answer")),
        ),
        Preset(
            "olympiadbench", "knoveleng/OlympiadBench", (), _TRAIN, "0 + 674", "MIT", "https://arxiv.org/abs/2402.14008",
            _math(prompt=("question", "problem"), answer=("answer", "final_answer")),
        ),
        Preset(
            "kk", "K-and-K/knights-and-knaves", tuple(HubPart(f"{n}ppl", "train") for n in PEOPLE),
            tuple(HubPart(f"{n}ppl", "test") for n in PEOPLE), "6,200 + 700",
            "CC BY-NC-SA 4.0 on the hub, MIT with the generator", "https://arxiv.org/abs/2410.23123",
            {
                "prompt": "quiz", "answer": "solution_text_format", "level": "people", "template": "kk",
                "verifier": "kk", "conflicts": "drop",
            },
        ),
        Preset(
            "geometry3k", "SunnyLin/geometry3k", _TRAIN, _TEST, "2,101 + 601", "MIT",
            "https://arxiv.org/abs/2105.04165",
            {"prompt": "problem", "template": "boxed", "verifier": "geometry", "conflicts": "drop"},
        ),
        Preset(
            "geometry3k_vision", "hiyouga/geometry3k", _TRAIN, _TEST, "2,101 + 601", "MIT",
            "https://arxiv.org/abs/2105.04165",
            {
                "prompt": "problem", "image": "images", "template": "boxed", "verifier": "geometry",
                "conflicts": "drop",
            },
        ),
        Preset(
            "openr1_math_46k", "Elliott/Openr1-Math-46k-8192", _TRAIN, (), "about 46,000", "MIT (as of a copy)",
            "https://arxiv.org/abs/2504.14945",
            _math(prompt="prompt", answer="reward_model.ground_truth", template="plain", test_share=TEST_SHARE),
        ),
        Preset(
            "simplelr", "hkust-nlp/SimpleRL-Zoo-Data", (HubPart("train", None, "simplelr_qwen_level3to5"),),
            (HubPart("test", None, "simplelr_qwen_level3to5"),), "about 8,000 + 500", "Apache-2.0",
            "https://arxiv.org/abs/2503.18892",
            _math(prompt=_PROBLEM, answer=("gt_answer", "answer"), level="level", template="simplerl_qwen"),
        ),
        Preset(
            "open_rs", "knoveleng/open-rs", _TRAIN, (), "7,000", "MIT", "https://arxiv.org/abs/2503.16219",
            _math(prompt="problem", family="level", template="think_boxed", test_share=TEST_SHARE),
        ),
    )
}  # fmt: skip


def find_preset(name: str) -> Preset | None:
    """The preset of that name, in which case, - and _ do not count ("MATH-500"); None when there is none."""
    return next((preset for preset in PRESETS.values() if _bare(preset.name) == _bare(name)), None)


def _bare(name: str) -> str:
    return name.strip().lower().replace("-", "").replace("_", "")


def preset_options(preset: Preset) -> list[str]:
    """Names of the options that the preset takes."""
    own = {"kk": ["people"], "geometry3k_vision": ["redraw"]}.get(preset.name, [])
    return [f.name for f in fields(RowOptions)] + ["path", "test_path", "revision", *own]


def preset_task(preset: Preset, **options: Any) -> RowTask:
    """The preset as a task; `options` (see `preset_options`) go before its own.

    path: a local copy, a file or a folder. test_path: another file as the test split. revision: commit, branch or tag
    on the hub. people (kk): how many inhabitants, [3, 7] or "3-7" for all between. redraw (geometry3k_vision): pictures
    redrawn from InterGPS's annotation in the local copy, without the rows for which it does not suffice. test_share,
    where given, cuts a set that is for evaluation only into train and test. A local copy is read at once, the hub at
    the first use. Raises FileNotFoundError when `path` is not there, ValueError for what cannot be read.
    """
    path, revision = options.pop("path", None), options.pop("revision", None)
    test_path = options.pop("test_path", None)
    people, redraw = options.pop("people", None), options.pop("redraw", False)
    numbers = list(PEOPLE) if people is None else whole_numbers(people, "people")
    if not numbers or not set(numbers) <= set(PEOPLE):
        raise ValueError(f"people: {people!r} must be numbers of {PEOPLE[0]} to {PEOPLE[-1]}")
    row_options = RowOptions(**{**preset.options, **options})
    local = Path(path) if path is not None else _shared_copy(preset)
    if not isinstance(redraw, bool) or (redraw and local is None):
        raise ValueError(f"redraw: {redraw!r} must be true or false, and true needs a local copy: set path")
    test_file = None if test_path is None else file_source(test_path)

    def sources() -> tuple[list[Source], list[Source]]:
        if local is not None:
            train, test = _local_sources(preset, local)
        else:
            train, test = (
                [
                    part_source(preset.hub, part, revision, row_options.pictures)
                    for part in parts
                    if _wanted(preset, part, numbers)
                ]
                for parts in (preset.train, preset.test)
            )
        if not train and "test_share" in options:
            train, test = test, []
        test = [test_file] if test_file else test
        change = _change(preset, local, numbers, redraw)
        return [s.changed(change) for s in train], [s.changed(change) for s in test]

    remote = f"{preset.hub} on the hub" if local is None else None
    task = RowTask(preset.name, sources, row_options, remote)
    if local is not None:
        task.load()
    return task


def _wanted(preset: Preset, part: HubPart, people: Sequence[int]) -> bool:
    return preset.name != "kk" or part.split in {f"{n}ppl" for n in people}


# ---- local copies -----------------------------------------------------------------------------------------------


def _shared_copy(preset: Preset) -> Path | None:
    """The preset's folder in UPSIDE_DATA, if that is set and has one."""
    root = os.environ.get("UPSIDE_DATA")
    if not root:
        return None
    if not Path(root).is_dir():
        raise FileNotFoundError(f"UPSIDE_DATA: there is no folder {root}")
    for folder in sorted(Path(root).iterdir()):
        if folder.is_dir() and find_preset(folder.name) is preset:
            return folder
    return None


def _local_sources(preset: Preset, path: Path) -> tuple[list[Source], list[Source]]:
    """Training and test sources of a file or a folder. Files of a set with one split only belong to that."""
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.suffix.lower() in ENDINGS and p.is_file())
        folders = [folder_sources(path, split) for split in ("train", "test")]
        if not files and any(folders):
            return folders[0], folders[1]
        if not files:
            raise FileNotFoundError(f"task {preset.name!r}: {path} holds no {', '.join(ENDINGS)} file")
        words = {file: _SPLIT_WORD.search(file.relative_to(path).as_posix()) for file in files}
    else:
        files, words = [path], {path: _SPLIT_WORD.search(path.name)}
    kinds = {file: word[1].lower() if word else "train" for file, word in words.items()}
    if not preset.train:
        return [], [file_source(file) for file in files]
    train = [file_source(file) for file, kind in kinds.items() if kind == "train"]
    return train, [file_source(file) for file, kind in kinds.items() if kind == "test"]


# ---- rows that need a hand ---------------------------------------------------------------------------------------


def _change(preset: Preset, local: Path | None, people: Sequence[int], redraw: bool) -> Change:
    if preset.name == "kk":
        return lambda row: _count_people(row, people)
    if preset.name == "geometry3k":
        forms = forms_of(local)
        return lambda row: as_text(row, forms)
    if preset.name == "geometry3k_vision":
        forms = forms_of(local)
        return lambda row: with_picture(row, local, forms, redraw)
    if preset.name in ("math", "minerva"):
        return _marked_solution
    return lambda row: row


def _count_people(row: Mapping[str, Any], people: Sequence[int]) -> Mapping[str, Any] | None:
    names = row.get("names")
    if not isinstance(names, list):
        raise ValueError("no list of names in the field 'names'; these are not the knights-and-knaves files")
    return {**row, "people": len(names)} if len(names) in people else None


def _marked_solution(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A worked solution without a box has no answer that could be told from the work."""
    solution = row.get("solution")
    if not isinstance(solution, str):
        return row
    gold = gold_answer(solution)
    return {**row, "solution": "" if gold == solution.strip() and len(gold) > 80 else gold}


def nearest_preset(name: str) -> list[str]:
    """Names of presets that look like this one."""
    return difflib.get_close_matches(name.lower().replace("-", "_"), PRESETS, n=2, cutoff=0.6)
