"""TRL's completions (`log_completions=True`): completions/completions_00010.parquet at each logging step.

Columns: step, prompt, completion (texts, or messages), one per reward function, extra ones that reward functions
logged, advantage. A file holds the last generation batch before it was written: `logging_steps=10` logs one batch in
ten, and a batch that serves several logged steps stands in several files. There is neither a total of the rewards nor
a group id; the responses to a prompt follow one another.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from upside.analysis.logs import columns
from upside.analysis.logs.files import Tables
from upside.analysis.logs.grouping import by_prompt, codes
from upside.analysis.logs.log import LogError
from upside.analysis.logs.messages import texts

COLUMNS = {"step", "prompt", "completion", "advantage"}


def without_repeats(tables: Tables) -> Tables:
    """Without the files that log the batch of the file before once more."""
    edges = np.cumsum([0, *tables.sizes])
    parts = [tables.table.slice(start, size) for start, size in zip(edges, tables.sizes, strict=False)]
    same = ["prompt", "completion", "advantage"]
    keep = [i for i in range(len(parts)) if not i or not parts[i].select(same).equals(parts[i - 1].select(same))]
    if len(keep) == len(parts):
        return tables
    note = (
        f"{len(parts) - len(keep)} files repeat the responses of the file before (a batch that served several logged "
        "steps) and count once."
    )
    kept = [parts[i] for i in keep]
    return Tables([tables.files[i] for i in keep], pa.concat_tables(kept), [*map(len, kept)], [*tables.notes, note])


def total(tables: Tables, mapping: Mapping[str, str]) -> str:
    """The reward as a sum of columns. TRL puts the reward functions first and extra columns behind them: the columns
    that count are those whose sum the logged advantages follow, all of them where none does."""
    known = {name for meaning, names in columns.NAMES.items() if meaning != "reward" for name in names}
    known |= set(mapping.values())
    numeric = [f.name for f in tables.table.schema if pa.types.is_floating(f.type) and f.name not in known]
    if not numeric:
        raise LogError(f"{tables.files[0]}: no column of a reward function; name it: map reward=COLUMN")
    group = by_prompt(codes(tables.table["step"]), codes(texts(tables.table["prompt"])), [])
    advantage = columns.numbers(tables, "advantage").to_numpy(zero_copy_only=False)
    sums = ["+".join(numeric[:count]) for count in range(len(numeric), 0, -1)]
    follows = [s for s in sums if _follows(advantage, columns.reward(tables, s), group)]
    chosen = follows[0] if follows else sums[0]
    if not follows:
        tables.notes.append(
            f"The reward is {chosen}, each with weight 1, but TRL logs no total and the logged advantages do not "
            f"follow from this one: with other reward_weights, or extra columns among them, map reward=2*{numeric[0]}+…"
        )
    elif len(numeric) > 1:
        tables.notes.append(f"TRL logs no total; the reward is {chosen}, from which the logged advantages follow.")
    return chosen


def _follows(advantage: np.ndarray, reward: pa.Array, group: np.ndarray) -> bool:
    """Whether in every group the advantages are the centred rewards times a positive number."""
    scores = reward.to_numpy(zero_copy_only=False)
    known = ~np.isnan(scores) & ~np.isnan(advantage)
    group, scores, advantage = group[known], scores[known], advantage[known]
    sums = lambda x: np.bincount(group, x)  # noqa: E731
    scores = scores - (sums(scores) / np.maximum(np.bincount(group), 1))[group]
    product, size = sums(scores * advantage), np.sqrt(sums(scores**2) * sums(advantage**2))
    live = (sums(scores**2) > 1e-10) | (sums(advantage**2) > 1e-10)
    return bool((product[live] > 0.999 * np.maximum(size[live], 1e-12)).all())
