"""What was run and what came of it: facts, the table of runs, accuracy by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from upside.analysis.blocks import Block, Cell, Column, Facts, Interval, Prose, Table
from upside.analysis.logs import Log
from upside.analysis.page.curves import ACCURACY, CURVES, MODES, final_mean, first_mean, points
from upside.analysis.page.sources import Source
from upside.analysis.show import cell_text, number
from upside.evaluation.metrics import estimate_mean

PERCENT = Column("", "percent")
ENGINES = {"upside": "upside train", "trl": "TRL", "verl": "verl", "table": "a table"}
PACKAGES = ("upside", "torch", "trl", "verl", "transformers")
BY_KEY = {curve.key: curve for curve in CURVES}
HEADLINE = [BY_KEY[key] for key in ("reward", "length", "entropy")]


def overview(sources: Sequence[Source], baseline: str | None = None) -> list[Block]:
    """The blocks of the first section. sources: those with a log; baseline: the name of one of them.

    ValueError where the baseline has no held-out results."""
    if len(sources) == 1:
        blocks: list[Block] = [_headline(sources[0]), Facts(facts(sources[0]))]
    else:
        said = [dict([*facts(source), *_before(_log(source))]) for source in sources]
        same = [(name, value) for name, value in said[0].items() if all(one.get(name) == value for one in said)]
        differ = [name for name in dict.fromkeys(key for one in said for key in one) if name not in dict(same)]
        blocks = [_runs(sources, said, differ), *([Facts(same)] if same else [])]
    if baseline is not None:
        blocks.insert(1, _differences(sources, baseline))
    notes = [f"{source.name}: {note}" for source in sources for note in _log(source).notes]
    return [*blocks, *([Prose(notes)] if notes else [])]


def facts(source: Source) -> list[tuple[str, str]]:
    """Name and value of what is known of a run's setting."""
    log = _log(source)
    recipe, found = log.recipe, [("Run", source.name)]
    for name, key in (("Estimator", "estimator"), ("Task", "task"), ("Model", "model"), ("Seed", "seed")):
        if recipe.get(key) is not None:
            found.append((name, str(recipe[key])))
    done, planned = len(log.steps) or len(log.metrics), recipe.get("steps")
    found.append(("Steps", f"{done:,}" + (f" of {planned:,}" if planned and planned != done else "")))
    groups = len(np.unique(log.codes("group")))
    found.append(("Responses", f"{len(log):,} in {groups:,} groups" if groups else "not logged"))
    if recipe.get("rewards"):
        found.append(("Rewards", ", ".join(map(_reward, recipe["rewards"]))))
    if recipe.get("lr") is not None:
        found.append(("Learning rate", f"{recipe['lr']:g}"))
    seconds = sum(log.summary.get("seconds", {}).get(name) or 0 for name in ("load", "train"))
    if seconds:
        found.append(("Training time", _time(seconds)))
    found.append(("Logged by", ENGINES[log.kind]))
    versions = [f"{name} {source.versions[name]}" for name in PACKAGES if source.versions.get(name)]
    return [*found, *([("Versions", ", ".join(versions))] if versions else [])]


def parts(sources: Sequence[Source]) -> list[Block]:
    """Held-out accuracy by family and level, where a run has more than one of them: one run's before and after
    training, of several runs each one's after."""
    blocks: list[Block] = []
    for mode in MODES:
        for part, name in (("by_family", "family"), ("by_level", "level")):
            found = {s.name: _by_part(_log(s), mode, part) for s in sources}
            names = list(dict.fromkeys(key for _, after in found.values() for key in after))
            if len(names) > 1 and len(sources) == 1:
                blocks.append(_before_and_after(f"{mode}, by {name}", name, *found[sources[0].name]))
            elif len(names) > 1:
                columns = [Column("Run"), *(Column(key, "percent") for key in names)]
                rows = [[run, *(after.get(key) for key in names)] for run, (_, after) in found.items()]
                blocks.append(Table(f"{mode}, by {name}, after training", columns, rows))
    return blocks


def _by_part(log: Log, mode: str, part: str) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Accuracy before and after training of each part."""
    before, after = (log.summary.get(when, {}).get(mode, {}).get(part, {}) for when in ("before", "after"))
    return before, after


def _before_and_after(title: str, name: str, before: Mapping[str, float], after: Mapping[str, float]) -> Table:
    rows = [
        [key, before.get(key), share, share - before[key] if key in before else None] for key, share in after.items()
    ]
    columns = [Column(name), Column("before", "percent"), Column("after", "percent"), Column("change", "points")]
    return Table(title, columns, rows)


def _headline(source: Source) -> Facts:
    """The figures to see first: held-out accuracy where it is known, else what the rollouts say."""
    log = _log(source)
    items: list[tuple[str, str, str]] = []
    for mode in MODES:
        ends = [held_out(log, when, mode) for when in ("before", "after")]
        known = [end for end in ends if end is not None and end.value is not None]
        if known:
            shares = " → ".join(number(end.value, "percent") for end in known)
            spans = [cell_text(end, PERCENT).partition(" ")[2].strip("()") for end in known]
            items.append((f"Held-out accuracy, {mode}", shares, f"95% intervals {', '.join(spans)}"))
    for curve in (ACCURACY, *HEADLINE):
        if points(curve, log):
            column = Column("", "percent" if curve.percent else "number", 1 if curve.percent else 2)
            means = " → ".join(cell_text(mean, column) for mean in (first_mean(curve, log), final_mean(curve, log)))
            items.append((f"{curve.title}, {curve.unit}", means, "first and last twentieth of the steps"))
    return Facts(items, headline=len(items))


def _before(log: Log) -> list[tuple[str, str]]:
    """Held-out accuracy before training, which runs that are compared mostly share."""
    found = [(mode, held_out(log, "before", mode)) for mode in MODES]
    return [(f"{mode} before".capitalize(), cell_text(share, PERCENT)) for mode, share in found if share is not None]


def _runs(sources: Sequence[Source], said: Sequence[Mapping[str, str]], differ: Sequence[str]) -> Table:
    columns = [Column(name) for name in differ]
    for mode in MODES:
        help = f"Share of held-out problems answered right after training, {mode} decoding, with its 95% interval."
        columns.append(Column(f"{mode} after", "percent", help=help))
    curves = list(zip((*HEADLINE, BY_KEY["zero_advantage_share"]), (3, 1, 3, 1), strict=True))
    for curve, digits in curves:
        help = f"{curve.unit}, mean of the last twentieth of the steps"
        columns.append(Column(curve.title.lower(), "percent" if curve.percent else "number", digits, help))
    rows: list[list[Cell]] = []
    for source, known in zip(sources, said, strict=True):
        log = _log(source)
        row: list[Cell] = [known.get(name) for name in differ]
        row += [held_out(log, "after", mode) for mode in MODES]
        rows.append([*row, *(final_mean(curve, log) for curve, _ in curves)])
    kept = [i for i in range(len(columns)) if any(row[i] is not None for row in rows)]
    note = "The interval is over the held-out problems: it says nothing of what another seed would give."
    if not any("after" in columns[i].name for i in kept):
        note = ""
    return Table("Runs", [columns[i] for i in kept], [[row[i] for i in kept] for row in rows], note)


def _differences(sources: Sequence[Source], baseline: str) -> Table:
    """Held-out accuracy after training minus the baseline's, paired by problem."""
    base = next(source for source in sources if source.name == baseline)
    columns = [Column("Run"), *(Column(f"{mode}, difference", "points", help=_PAIRED) for mode in MODES)]
    rows: list[list[Cell]] = []
    for source in sources:
        if source is not base:
            rows.append([source.name, *(_difference(_log(source), _log(base), mode) for mode in MODES)])
    if not any(cell is not None for row in rows for cell in row[1:]):
        raise ValueError(
            f"baseline: {baseline} shares no held-out evaluation with the other runs; give another, or leave it out"
        )
    note = "Percentage points with the 95% interval over problems. One run each: another seed may turn them around."
    return Table(f"Compared to {baseline}", columns, rows, note)


_PAIRED = "The run's share of right answers minus the baseline's on the same held-out problems after training."


def _difference(log: Log, base: Log, mode: str) -> Interval | None:
    """The paired difference, None where the two didn't answer the same problems."""
    shares = [_shares(one, mode) for one in (log, base)]
    if not shares[0] or len(shares[0]) != len(shares[1]) or log.recipe.get("task") != base.recipe.get("task"):
        return None
    found = estimate_mean([a - b for a, b in zip(*shares, strict=True) if a is not None and b is not None])
    return Interval(found.value, found.low, found.high)


def _shares(log: Log, mode: str) -> list[float | None]:
    """Each held-out problem's share of right answers at the last evaluation."""
    lines = [line for line in log.held_out if line["mode"] == mode]
    if not lines or not log.summary.get("after"):
        return []
    pairs = zip(lines[-1]["right"], lines[-1]["judged"], strict=True)
    return [right / judged if judged else None for right, judged in pairs]


def held_out(log: Log, when: str, mode: str) -> Interval | None:
    """Accuracy before or after training with its interval, None where it was not measured."""
    known = log.summary.get(when, {}).get(mode)
    return Interval(known["accuracy"], known.get("low"), known.get("high")) if known else None


def _reward(reward: Any) -> str:
    if not isinstance(reward, Mapping):
        return str(reward)
    weight = reward.get("weight", 1)
    return str(reward.get("name", reward)) + (f" × {weight:g}" if weight != 1 else "")


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _log(source: Source) -> Log:
    assert source.log is not None
    return source.log
