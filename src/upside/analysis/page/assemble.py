"""Which sections a page has, from the paths it is asked to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from upside.analysis.blocks import Cell, Column, Findings, Groups, Prose, Section, Table
from upside.analysis.logs import Log, read_log
from upside.analysis.page.curves import charts
from upside.analysis.page.overview import overview, parts
from upside.analysis.page.pictures import embedded
from upside.analysis.page.render import LEVELS, render
from upside.analysis.page.sources import Source, read_sources

LARGEST = 14_000_000
"""Bytes of a page; above it fewer groups are shown."""
CHARACTERS = 40_000_000  # of all prompts and responses, before they are packed
PICTURES = 4_000_000  # bytes of all pictures
RESPONSES = 60_000
"""How many the page shows of a log at most: they are unpacked at once."""


def report(
    paths: Sequence[str | Path],
    output: str | Path = "report.html",
    *,
    title: str | None = None,
    estimators: Sequence[str] = (),
    baseline: str | Path | None = None,
) -> Path:
    """Write one HTML page about runs and other logs, comparisons and microscopes; gives its path back.

    paths: run folders, logs that `read_log` knows, and output folders of `upside compare` and `upside microscope`.
    title: default, the names of the paths. estimators: specs that explain the groups instead of the run's own.
    baseline: one of the paths, a run that the others' held-out accuracy is compared to.

    The page holds all groups of responses, or as many as keep it below 15 MB. ValueError, LogError or OSError where
    a path holds nothing known or the baseline is none of them; what an analysis lacks, the page says in its place.
    """
    sources = read_sources(paths)
    named = None if baseline is None else _named(baseline, [source for source in sources if source.log is not None])
    target = Path(output)
    if target.is_dir():
        raise ValueError(f"output: {target} is a folder; give a file, such as {target / 'report.html'}")
    if target.exists() and not target.is_file():
        raise ValueError(f"output: {target} is no ordinary file; give one to write, such as report.html")
    page = _page(sources, title or _title(sources), list(estimators), named)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".tmp")
    partial.write_text(page, encoding="utf-8")
    partial.replace(target)
    return target


def _page(sources: Sequence[Source], title: str, estimators: list[str], baseline: str | None) -> str:
    """The page, its groups halved until it is small enough."""
    logs = {source.name: source.log for source in sources if source.log is not None}
    first = [
        *_runs([s for s in sources if s.log is not None], baseline),
        *(section for s in sources for section in s.sections),
    ]
    diagnoses = [(name, section) for name, log in logs.items() for section in _diagnosis(log)]
    shown = {source.path.resolve() for source in sources}
    compared = [folder for source in sources for folder in source.runs if folder.resolve() not in shown]
    behind = [(folder.name, section) for folder in compared for section in _diagnosis(folder)]
    groups = [block for name, log in logs.items() for block in _explained(name, log, estimators, len(logs))]
    while True:
        page = render(title, [*first, *_diagnoses(diagnoses, behind), *_browser(groups)])
        if len(page.encode()) <= LARGEST or all(len(b.groups) <= 1 for b in groups if isinstance(b, Groups)):
            return page
        groups = [_halved(block) if isinstance(block, Groups) else block for block in groups]


def _named(baseline: str | Path, sources: Sequence[Source]) -> str:
    """The name of the run that the baseline is, by name or path."""
    for source in sources:
        if str(baseline) == source.name or Path(baseline).resolve() == source.path.resolve():
            return source.name
    raise ValueError(f"baseline: {baseline} is no run among the paths: {', '.join(s.name for s in sources)}")


def _title(sources: Sequence[Source]) -> str:
    """The names of the paths; of a single analysis, what its first section is about."""
    only = sources[0]
    return only.sections[0].title if len(sources) == 1 and only.sections else ", ".join(s.name for s in sources)


def _runs(sources: Sequence[Source], baseline: str | None) -> list[Section]:
    """Overview and curves of the logs."""
    if not sources:
        return []
    logs = {source.name: source.log for source in sources if source.log is not None}
    curves = charts(logs)
    by_part = parts(sources)
    return [
        Section("overview", "Overview", overview(sources, baseline)),
        Section("curves", "Curves", curves, "Drag over a chart to zoom in; a name hides its line."),
        *([Section("parts", "Held-out accuracy by part", by_part)] if by_part else []),
    ]


def _diagnosis(log: Log | Path) -> list[Section]:
    """What the doctor finds in a log or run folder, or why it cannot look."""
    from upside.analysis.doctor import diagnose

    try:
        return list(diagnose(read_log(log) if isinstance(log, Path) else log).sections())
    except ValueError as error:
        return [Section("diagnosis", "Diagnosis", [Prose([f"Not made: {error}"])])]


def _diagnoses(found: Sequence[tuple[str, Section]], behind: Sequence[tuple[str, Section]] = ()) -> list[Section]:
    """One log's as they are; of several, a table before each one's, folded. behind: of the runs that a comparison rests
    on; those without a finding stand in the table alone."""
    if len(found) < 2 and not behind:
        return [section for _, section in found]
    rows: list[list[Cell]] = []
    folded = []
    for place, (name, section) in enumerate([*found, *behind]):
        checks = [f for block in section.blocks if isinstance(block, Findings) for f in block.findings]
        by_level = {level: [f["check"] for f in checks if f["level"] == level] for level in LEVELS}
        trouble = by_level["fail"] + by_level["warn"]
        if checks:
            rows.append([name, *map(len, by_level.values()), ", ".join(trouble) or None])
        if place < len(found) or trouble or not checks:
            folded.append(replace(section, title=f"{section.title}: {name}", folded=True))
    columns = [Column("Run"), *(Column(level, "number", 0) for level in LEVELS), Column("found")]
    return [Section("diagnoses", "Diagnosis", [Table("Checks by run", columns, rows)] if rows else []), *folded]


def _explained(name: str, log: Log, estimators: list[str], logs: int) -> list[Groups | Prose]:
    """A log's groups by each estimator, its own where none is given."""
    from upside.analysis.explaining import KINDS, explain_groups

    found: list[Groups | Prose] = []
    own: list[str | None] = [None]
    parts = logs * max(1, len(estimators))
    for spec in estimators or own:
        try:
            block = explain_groups(log, spec, limit=_limit(log), characters=CHARACTERS // parts)
        except ValueError as error:
            found.append(Prose([f"{name}{f', {spec}' if spec else ''}: not explained: {error}"]))
            continue
        source = f"{name}, {spec}" if len(estimators) > 1 else name
        pictures = embedded(Path(log.source), block.groups, PICTURES // parts)
        found.append(replace(block, source=source, meanings=KINDS, pictures=pictures))
    return found


def _limit(log: Log) -> int | None:
    """How many of a log's groups to show, None for all."""
    if len(log) <= RESPONSES:
        return None
    return max(1, len(np.unique(log.codes("group"))) * RESPONSES // len(log))


def _browser(groups: Sequence[Groups | Prose]) -> list[Section]:
    if not groups:
        return []
    ordered = [block for kind in (Prose, Groups) for block in groups if isinstance(block, kind)]
    intro = "Every response with its numbers, the value after each stage of the estimator, and why."
    return [Section("responses", "Responses", ordered, intro)]


def _halved(block: Groups) -> Groups:
    """Every second group; a page that shows fewer says so by itself."""
    return replace(block, groups=block.groups[::2], total=block.total or len(block.groups))
