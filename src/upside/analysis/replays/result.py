"""What a replay found, as sections for the console and the page, and as files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from upside.analysis.blocks import (
    SECTIONS_FILE,
    Block,
    Chart,
    Column,
    Findings,
    Kind,
    Prose,
    Section,
    Series,
    Table,
    save,
)
from upside.analysis.logs.log import Log
from upside.analysis.replays.measures import LOGGED
from upside.analysis.show import number

POINTS = 60  # of a line; of a longer log each point is the mean of several steps
ALIKE = 0.999  # share of responses that have the logged advantage
NOTABLE = 0.02  # of the total push: below, a difference is not put into words
EFFECTIVE = (
    "Effective samples: (sum of |A|) squared over the sum of A squared, as a share of a step's responses, mean over "
    "steps. 100%: all weigh the same."
)


@dataclass(frozen=True)
class Replay:
    """Several estimators on one log.

    specs: {name: spec} as asked. values: {name: (N,) float32}, in the log's order. left_out: {name: what the log
    lacks}. figures: see `measures.measure`, plain data.
    """

    log: Log
    specs: dict[str, str]
    values: dict[str, np.ndarray]
    left_out: dict[str, str]
    figures: dict[str, Any]

    @property
    def baseline(self) -> str:
        return str(self.figures["baseline"])

    def sections(self) -> list[Section]:
        """Tables, charts and sentences."""
        return [
            Section(
                id="replay",
                title=f"What other estimators would have given: {self.log.source}",
                intro="The logged responses under each estimator, without training again. What training would have "
                "made of it is another question: later responses would differ.",
                blocks=[self._said(), self._gives(), self._against(), *self._each_with_each(), *self._logged()],
            ),
            Section(
                id="replay-who",
                title="Who gains and who loses",
                intro="Where the absolute advantage goes, and which way it pushes.",
                blocks=[self._shares(), self._push(), *self.charts()],
            ),
            Section(
                id="replay-conditions",
                title="What the conditions saw",
                intro="ADORA weighs a prompt by its state at this visit; CANON compares the halves of a group.",
                blocks=[*self._states(), *self._halves()],
            ),
        ]

    def write(self, folder: Path, rows: bool = False) -> None:
        """replay.json, sections.json, replay.png, and with `rows` advantages.parquet: a row a response."""
        folder.mkdir(parents=True, exist_ok=True)
        plain = {"source": self.log.source, "estimators": self.specs, "left_out": self.left_out, **self.figures}
        text = json.dumps({**plain, "notes": self.log.notes}, indent=1, allow_nan=False)
        (folder / "replay.json").write_text(text + "\n", encoding="utf-8")
        save(self.sections(), folder / SECTIONS_FILE)
        if charts := self.charts():
            from upside.analysis.show import picture

            picture(charts, folder / "replay.png", title=self.log.source)
        if rows:
            import pyarrow.parquet

            known = self.log.table.select([n for n in ("step", "group", "reward") if n in self.log.table.column_names])
            for name, values in self.values.items():
                known = known.append_column(f"advantage {name}", [values])
            pyarrow.parquet.write_table(known, folder / "advantages.parquet")

    @property
    def _names(self) -> list[str]:
        """Baseline first; the logged advantages only where they are those of no estimator."""
        names = [name for name in self.figures["names"] if name != self.baseline]
        if self.figures["logged"] and self._alike >= ALIKE:
            names.remove(LOGGED)
        return [self.baseline, *names]

    @property
    def _alike(self) -> float:
        logged = self.figures["logged"]
        return float(logged["equal"][logged["closest"]])

    def _pair(self, what: str, first: str, second: str) -> Any:
        names = self.figures["names"]
        return self.figures[what][names.index(first)][names.index(second)]

    def _said(self) -> Block:
        """What must not be missed, in sentences."""
        f, each = self.figures, self.figures["estimators"]
        said = [
            f"{f['responses']:,} responses in {f['groups']:,} groups over {_counted(f['steps'])}"
            + (f"; {f['unscored']:,} have no reward and train nothing." if f["unscored"] else ".")
        ]
        base = number(each[self.baseline]["zero_share"], "percent")
        flips = {name: self._pair("opposite_sign", name, self.baseline) for name in self._names[1:]}
        said += [
            f"{name} turns the sign of {number(share, 'percent')} of the responses against {self.baseline}."
            for name, share in flips.items()
            if share
        ]
        if same := [name for name, share in flips.items() if not share]:
            said.append(f"Against {self.baseline} no sign is turned by {', '.join(same)}.")
        silent = [f"{name} {number(each[name]['zero_share'], 'percent')}" for name in self._names[1:]]
        said.append(f"Responses without a signal: {self.baseline} {base}{''.join(', ' + text for text in silent)}.")
        said += self._shifts()
        said += [f"{name} is left out: {why}." for name, why in self.left_out.items()]
        return Prose([*said, *f["assumed"], *self.log.notes])

    def _shifts(self) -> list[str]:
        """The kind of responses that each estimator treats most unlike the baseline."""
        said = []
        for name in self._names[1:]:
            kinds = [k for k in self.figures["slices"] if None not in (k["push"][name], k["push"][self.baseline])]
            gaps = {kind["name"]: kind["push"][name] - kind["push"][self.baseline] for kind in kinds}
            most = max(gaps, key=lambda kind: abs(gaps[kind]), default=None)
            if most is not None and abs(gaps[most]) >= NOTABLE:
                way = "likelier" if gaps[most] > 0 else "unlikelier"
                said.append(
                    f"Against {self.baseline}, {name} makes these responses {way} above all: {most} (net push "
                    f"{number(gaps[most], 'points')} points)."
                )
        return said

    def _gives(self) -> Table:
        columns = [
            Column("estimator"),
            Column("no signal", "percent", help="Share of responses with advantage 0, also for want of a reward."),
            Column("dead groups", "percent", help="Share of groups in which every advantage is 0."),
            Column("effective", "percent", help=EFFECTIVE),
            Column("size", "number", 2, help="Sum of |A| over the baseline's: like a factor on the learning rate."),
            Column("max |A|", "number", 2, help="Largest absolute advantage of any response."),
            Column("weight", "number", 2, help="Mean of ADORA's weight over responses; – where there is none."),
        ]
        keys = ("zero_share", "zero_groups", "effective", "size", "largest", "mean_weight")
        rows = [[name, *(self.figures["estimators"][name][key] for key in keys)] for name in self._names]
        return Table("What each estimator gives", columns, rows)

    def _against(self) -> Table:
        base = self.baseline
        columns = [
            Column("estimator"),
            Column("same sign", "percent", help=f"Share of responses with the same sign as {base}, both 0 included."),
            Column("flips", "percent", help=f"Share of responses with the opposite sign of {base}."),
            Column("one is 0", "percent", help=f"Share of responses with a signal from one alone of it and {base}."),
            Column("correlation", "number", 3, help=f"Pearson correlation with {base} over all responses."),
        ]
        rows = []
        for name in self._names[1:]:
            same, flips = (self._pair(what, name, base) for what in ("same_sign", "opposite_sign"))
            rows.append([name, same, flips, 1 - same - flips, self._pair("correlation", name, base)])
        return Table(f"Against {base}", columns, rows)

    def _each_with_each(self) -> list[Block]:
        names = self._names
        if len(names) < 3:
            return []
        kinds: list[tuple[str, str, Kind, int]] = [
            ("same_sign", "Same sign", "percent", 1),
            ("correlation", "Correlation", "number", 3),
        ]
        return [
            Table(
                f"{title}, each with each",
                [Column(""), *(Column(name, kind, digits, help=f"{title} with {name}.") for name in names)],
                [[name, *(self._pair(what, name, other) for other in names)] for name in names],
            )
            for what, title, kind, digits in kinds
        ]

    def _logged(self) -> list[Block]:
        """Are the logged advantages what they should be?"""
        logged = self.figures["logged"]
        if logged is None:
            return []
        share, closest = number(self._alike, "percent"), logged["closest"]
        finding: dict[str, Any] = {
            "check": "logged advantages",
            "level": "ok",
            "title": f"The logged advantages are those of {closest}",
            "evidence": f"{share} of the responses have the advantage that {closest} gives",
            "threshold": f"{number(ALIKE, 'percent')} of the responses",
            "remedy": "",
            "steps": [],
        }
        if self._alike < ALIKE:
            finding |= {
                "level": "warn",
                "title": "The logged advantages are those of none of these estimators",
                "evidence": f"{closest} comes closest among {', '.join(logged['equal'])}: {share} of the responses",
                "remedy": "Add the estimator that was trained with to the list. If it is there: are the reward's "
                "weights and the groups as in training? Were the advantages changed after they were logged, as in a "
                "trainer's subclass? Then the log does not show what was trained on.",
            }
        return [Findings([finding])]

    def _slice_table(self, what: str, title: str, note: str, first: Column, other: str) -> Table:
        names = self._names
        columns = [
            Column("responses"),
            Column("of all", "percent", help="Share of the responses that have a reward."),
            first,
            *(Column(name, "points", help=f"{name}: {other}") for name in names[1:]),
        ]
        rows = []
        for each in self.figures["slices"]:
            base = each[what][self.baseline]
            gaps = [None if each[what][n] is None or base is None else each[what][n] - base for n in names[1:]]
            rows.append([each["name"], each["rows"], base, *gaps])
        return Table(title, columns, rows, note=note)

    def _shares(self) -> Table:
        return self._slice_table(
            "share",
            "Where the absolute advantage goes",
            "Thirds are of each step's responses.",
            Column(self.baseline, "percent", help=f"Share of the sum of |A| under {self.baseline}."),
            f"share of the sum of |A|, in percentage points more than {self.baseline}.",
        )

    def _push(self) -> Table:
        return self._slice_table(
            "push",
            "Which way it pushes",
            "Above 0: these responses are made likelier on balance; below: unlikelier.",
            Column(self.baseline, "points", help=f"Sum of A over the sum of all |A| under {self.baseline}, as points."),
            f"sum of A over the sum of all |A|, in percentage points more than {self.baseline}.",
        )

    def _states(self) -> list[Block]:
        states = self.figures["advantageous"]
        if not states:
            return [Prose(["ADORA's states need token counts, which the log lacks."])]
        columns = [
            Column("state"),
            Column("advantageous", "percent", help="Share of prompt visits in this state (ADORA's TAS)."),
            Column("visits compared", "number", 0, help="Visits of a prompt that was seen at an earlier step."),
            Column("flips", "percent", help="Share of them whose state differs from the visit before."),
            Column(
                "by chance",
                "percent",
                help="Flips of a state that is drawn anew at each visit, 2 p (1 - p): near it, the state says nothing "
                "lasting about the prompt.",
            ),
        ]
        rows = [
            [s["name"], s["share"], s["visits"], s["flips"], s["by_chance"] if s["visits"] else None] for s in states
        ]
        none = "" if any(s["visits"] for s in states) else "No prompt was visited twice."
        return [Table("How lasting a prompt's state is", columns, rows, note=none)]

    def _halves(self) -> list[Block]:
        halves = self.figures["halves"]
        if not halves:
            return [Prose(["CANON's halves need token counts or entropies, which the log lacks."])]
        columns = [
            Column("halves by"),
            Column("gap", "signed", 3, help="Mean reward of the high half less the low half's, mean over groups."),
            Column("high half earned more", "percent", help="Share of groups."),
            Column("low half earned more", "percent", help="Share of groups."),
        ]
        rows = [[name, half["gap"], half["high_better"], half["low_better"]] for name, half in halves.items()]
        note = (
            "To what Dr.GRPO gives, CANON-Inter adds half the gap in the half that earned more and takes it from the "
            "other; CANON-Intra does the opposite."
        )
        return [Table("The halves' gap", columns, rows, note=note)]

    def charts(self) -> list[Chart]:
        """Over the steps; none where the log is one step."""
        steps, each, names = self.figures["steps"], self.figures["estimators"], self._names
        if len(steps) < 2:
            return []
        lines = {name: each[name]["steps"] for name in names}
        made = [
            self._chart("Responses without signal", "share", {n: y["zero_share"] for n, y in lines.items()}),
            self._chart("Effective samples", "share of responses", {n: y["effective"] for n, y in lines.items()}),
        ]
        flips = {name: lines[name]["opposite"] for name in names[1:]}
        if any(map(any, flips.values())):
            made.append(self._chart(f"Opposite sign of {self.baseline}", "share of responses", flips))
        if halves := self.figures["halves"]:
            gaps = {f"by {name}": half["steps"] for name, half in halves.items()}
            made.append(self._chart("High half's reward less the low half's", "reward", gaps, percent=False))
        return made

    def _chart(
        self, title: str, label: str, lines: Mapping[str, Sequence[float | None]], percent: bool = True
    ) -> Chart:
        steps = self.figures["steps"]
        width = -(-len(steps) // POINTS)
        x = [float(step) for step in steps[::width]]
        series = [Series(name, x, _thinned(y, width), key=name) for name, y in lines.items()]
        note = f"Each point is the mean of {width} steps." if width > 1 else ""
        return Chart(title, "step", label, series, percent=percent, note=note)


def _counted(steps: Sequence[int]) -> str:
    return f"{len(steps):,} step{'s' if len(steps) > 1 else ''}"


def _thinned(y: Sequence[float | None], width: int) -> list[float | None]:
    """Means of `width` neighbours, None where none of them is known."""
    chunks = [[v for v in y[start : start + width] if v is not None] for start in range(0, len(y), width)]
    return [sum(chunk) / len(chunk) if chunk else None for chunk in chunks]
