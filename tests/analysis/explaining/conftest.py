from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from upside.analysis.logs import Log


def build(groups: list[dict[str, Any]], recipe: dict[str, Any] | None = None) -> Log:
    """A log of groups: each a dict of step, prompt and rewards, and lists of what else is known of its responses."""
    rows: list[dict[str, Any]] = []
    prompts: dict[str, int] = {}
    for code, group in enumerate(groups):
        prompt = group.get("prompt", f"question {code}")
        for i, reward in enumerate(group["rewards"]):
            known = {name: value[i] for name, value in group.items() if name not in ("step", "prompt", "rewards")}
            row = {"step": group.get("step", 1), "group": code, "prompt": prompts.setdefault(prompt, len(prompts))}
            row |= {"prompt_text": prompt, "response": f"answer {code}.{i}", "reward": reward, "length": 10.0 + i}
            rows.append(row | known)
    columns = {name: [row.get(name) for row in rows] for row in rows for name in row}
    return Log(source="a/log", kind="table", table=pa.table(columns), recipe=recipe or {})


@pytest.fixture
def log_of() -> Callable[..., Log]:
    return build
