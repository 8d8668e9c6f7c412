"""AAPO's reference, sampled once: `upside reference build` writes a table of rewards, `reference: table` reads it.

The table is a Parquet file with one row a response of the frozen reference model:

| column | what |
|---|---|
| problem | the problem's id |
| sample | 0 … G-1 |
| reward | by the rewards of the table, null where none could be computed |
| correct, outcome | the verdict |
| tokens | length, end token included |
| prompt | digest of the prompt's tokens and pictures |

Its metadata hold, under the key `upside`, what the rewards depend on: the digest of the model and its tokenizer, the
sampling, the rewards.
"""

from __future__ import annotations

import json
import math
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upside.evaluation.fingerprint import differences, of_model, of_prompt, of_tokenizer
from upside.rewards import Completions, Rewards, load_rewards
from upside.tasks.base import Problem
from upside.tasks.prompts import Reader
from upside.training.recipe import Recipe, RecipeError

if TYPE_CHECKING:
    from upside.evaluation.judging import Row

KEY = b"upside"
VERDICT: list[Any] = ["verdict"]
AT_ONCE = 4096  # responses judged together, and those of the last problem that begins among them


@dataclass(frozen=True)
class ReferenceTable:
    """rewards: problem id -> its samples' rewards in order, None where none could be computed. prompts: problem id ->
    digest of its prompt's tokens. settings: what the rewards depend on."""

    rewards: dict[str, list[float | None]]
    prompts: dict[str, str]
    settings: dict[str, Any]

    @classmethod
    def load(cls, path: str | Path) -> ReferenceTable:
        """Raises FileNotFoundError, and ValueError for a file that is no such table."""
        import pyarrow
        import pyarrow.parquet

        if not Path(path).is_file():
            raise FileNotFoundError(f"there is no reference table {path}; make it with: upside reference build")
        try:
            table = pyarrow.parquet.read_table(path, columns=["problem", "sample", "reward", "prompt"])
            settings = dict(json.loads((table.schema.metadata or {})[KEY]))
            rows = sorted(table.to_pylist(), key=lambda row: (row["problem"], row["sample"]))
        except (pyarrow.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is no reference table ({error}); make one with: upside reference build") from None
        rewards: dict[str, list[float | None]] = {}
        prompts: dict[str, str] = {}
        for row in rows:
            reward = row["reward"]
            if reward is not None and not (isinstance(reward, int | float) and not math.isinf(reward)):
                raise ValueError(
                    f"{path}: reward {reward!r} of {row['problem']!r} must be a finite number, NaN or null"
                )
            rewards.setdefault(row["problem"], []).append(reward)
            prompts[row["problem"]] = row["prompt"]
        return cls(rewards, prompts, settings)


def settings_of(
    model: str | Path, tokenizer: Reader, sampling: Mapping[str, Any], rewards: Sequence[Any]
) -> dict[str, Any]:
    """What a reference reward depends on, beside the prompt."""
    names = ("temperature", "top_p", "top_k", "max_new_tokens")
    return {
        "model": {"name": str(model), "weights": of_model(model), "tokenizer": of_tokenizer(tokenizer)},
        "sampling": {name: sampling[name] for name in names},
        "rewards": list(rewards),
    }


def for_run(recipe: Recipe, problems: Sequence[Problem], tokenizer: Reader) -> dict[int, list[float | None]] | None:
    """Index of a training problem -> the rewards of its reference responses, from the recipe's table; None where the
    recipe has no table. Problems that the table lacks are left out with `reference_missing: fresh`.

    Raises RecipeError for a table of another model, sampling, rewards or prompts, and for missing problems.
    """
    if recipe.reference != "table":
        return None
    assert recipe.reference_table is not None  # a recipe without is refused
    try:
        table = ReferenceTable.load(recipe.reference_table)
    except ValueError as error:
        raise RecipeError(f"reference_table: {error}") from error
    sampling = {name: getattr(recipe, name) for name in ("temperature", "top_p", "top_k", "max_new_tokens")}
    ours = settings_of(recipe.model, tokenizer, sampling, recipe.rewards)
    known = {key: table.settings.get(key, {}) for key in ours}
    if differing := differences(known, json.loads(json.dumps(ours))):
        raise RecipeError(
            f"reference_table: {recipe.reference_table} is of another reference: {'; '.join(differing)}. Name "
            f"another file, and build it for this run: {command(recipe)}"
        )
    found, missing = {}, []
    for index, problem in enumerate(problems):
        if problem.id not in table.rewards:
            missing.append(problem.id)
            continue
        if table.prompts[problem.id] != of_prompt(tokenizer, problem):
            raise RecipeError(
                f"reference_table: problem {problem.id!r} was asked with another prompt there (template, system "
                "prompt); build the table with the task options of this run"
            )
        found[index] = table.rewards[problem.id]
    if missing and recipe.reference_missing == "error":
        raise RecipeError(
            f"reference_table: {len(missing)} of {len(problems)} training problems are not in "
            f"{recipe.reference_table} (first: {missing[0]!r}); sample for these during the run with "
            f"reference_missing=fresh, or build a table of all of them: {command(recipe)}"
        )
    return found


def build(
    model: str | Path,
    data: str,
    output: str | Path,
    *,
    samples: int,
    options: Mapping[str, Any] | None = None,
    rewards: Sequence[Any] = VERDICT,
    problems: int | None = None,
    seed: int = 0,
    **settings: Any,
) -> ReferenceTable:
    """Sample `samples` responses of a frozen model to every training problem of a task, and write the table.

    It is an evaluation of the training split: after a kill the same call goes on where it was (its journal is the
    folder `OUTPUT.unfinished` until the table is there). rewards: as in the recipe that will read the table. problems,
    seed: which ones, as `train_problems` and `seed` of the recipe; None: all, and 512 of a task that makes them up.
    settings: temperature, top_p, top_k, max_new_tokens, max_prompt_tokens, batch_size, backend, console of
    `run_evaluation`. Raises FileExistsError where the output is there already, else what evaluation and rewards raise.
    """
    from upside.evaluation import run_evaluation
    from upside.evaluation.sets import load_sets
    from upside.models.loading import load_reader

    path = Path(output)
    if path.exists():
        raise FileExistsError(f"{path} exists; remove it, or name another --output")
    source, given = f"reference={data}", dict(options or {})
    chosen = load_sets([source], given, "train", problems, seed)[0]
    judge = load_rewards(rewards, chosen.task)  # refused before hours of sampling
    journal = path.with_name(f"{path.name}.unfinished")
    suite = run_evaluation(
        model, [source], options=given, split="train", problems=problems, samples=samples, seed=seed, output=journal,
        **settings,
    )  # fmt: skip
    rows = suite["reference"].rows
    by_id = {problem.id: problem for problem in chosen.problems}
    tokenizer = load_reader(model)
    prompts = {id: of_prompt(tokenizer, by_id[id]) for id in {row.problem for row in rows}}
    _write(path, rows, _scores(judge, by_id, rows, rewards), prompts, settings_of(
        model, tokenizer, suite.settings["sampling"], rewards
    ) | {"task": data, "options": given, "seed": seed, "versions": suite.settings["versions"]})  # fmt: skip
    shutil.rmtree(journal)
    return ReferenceTable.load(path)


def _scores(judge: Rewards, by_id: Mapping[str, Problem], rows: Sequence[Row], rewards: Sequence[Any]) -> list[Any]:
    """The reward of each row; a problem's samples are one group. The verdict alone is in the rows already."""
    if list(rewards) == VERDICT:
        return [row.score for row in rows]
    found: list[float | None] = []
    for part in _parts(rows):
        found += judge(
            Completions(
                problems=[by_id[row.problem] for row in part],
                responses=[row.response for row in part],
                lengths=[row.tokens for row in part],
                truncated=[row.truncated for row in part],
                groups=[row.problem for row in part],
            )
        ).score
    return found


def _parts(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """The rows in parts that hold all responses of their problems; those of a problem stand together."""
    part: list[Row] = []
    for _, group in groupby(rows, key=lambda row: row.problem):
        part += group
        if len(part) >= AT_ONCE:
            yield part
            part = []
    if part:
        yield part


def _write(
    path: Path, rows: Sequence[Row], rewards: Sequence[Any], prompts: Mapping[str, str], settings: Mapping[str, Any]
) -> None:
    import pyarrow
    import pyarrow.parquet

    columns = {
        "problem": pyarrow.array([row.problem for row in rows], "string"),
        "sample": pyarrow.array([row.sample for row in rows], "int32"),
        "reward": pyarrow.array(rewards, "double"),
        "correct": pyarrow.array([row.correct for row in rows], "bool"),
        "outcome": pyarrow.array([row.outcome for row in rows], "string"),
        "tokens": pyarrow.array([row.tokens for row in rows], "int32"),
        "prompt": pyarrow.array([prompts[row.problem] for row in rows], "string"),
    }
    table = pyarrow.table(columns).replace_schema_metadata({KEY: json.dumps(settings).encode()})
    partial = path.with_name(f"{path.name}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(table, partial)
    partial.replace(path)


def command(recipe: Recipe) -> str:
    """The command that builds the table this recipe can read."""
    words = ["upside", "reference", "build", recipe.model, "--data", recipe.task, "--samples", str(recipe.group_size)]
    words += [w for key, value in recipe.task_options.items() for w in ("--option", f"{key}={value}")]
    if list(recipe.rewards) != VERDICT:
        words += [
            w for term in recipe.rewards for w in ("--reward", term if isinstance(term, str) else json.dumps(term))
        ]
    names = ("temperature", "top_p", "top_k", "max_new_tokens", "max_prompt_tokens", "seed")
    words += [w for name in names for w in (f"--{name.replace('_', '-')}", str(getattr(recipe, name)))]
    if recipe.train_problems:
        words += ["--problems", str(recipe.train_problems)]
    return shlex.join([*words, "--output", recipe.reference_table or "reference.parquet"])
