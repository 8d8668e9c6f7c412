"""How responses are drawn, and the settings of the papers by name."""

from __future__ import annotations

import difflib
import math
from dataclasses import asdict, dataclass
from typing import Any

BUNDLED_TASKS = ("reasoner", "arithmetic", "knights")
"""Tasks whose responses have strategies."""

SHORT_TASKS = (*BUNDLED_TASKS, "fewshot_arithmetic", "shapes")
"""Generated tasks of short answers: 96 tokens are enough."""


MOST_SAMPLES = 100_000
"""Responses a problem. The responses to one problem are held in memory and are what a kill can lose."""


@dataclass(frozen=True)
class Sampling:
    """How responses are drawn: `samples` to each problem, each of at most `max_new_tokens` tokens. top_k 0 and top_p
    1.0 mean no truncation of the distribution; greedy takes the likeliest token and ignores all three. Raises
    ValueError for what is out of range."""

    samples: int = 1
    greedy: bool = False
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_new_tokens: int = 96

    def __post_init__(self) -> None:
        if self.samples < 1 or (self.greedy and self.samples > 1):
            raise ValueError(f"samples must be at least 1, and 1 when greedy, got {self.samples}")
        if self.samples > MOST_SAMPLES:
            raise ValueError(f"samples must be at most {MOST_SAMPLES}, got {self.samples}")
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, got {self.max_new_tokens}")
        if not self.greedy and not 0 < self.temperature < math.inf:
            raise ValueError(
                f"temperature must be positive and finite, got {self.temperature}; use greedy for the likeliest tokens"
            )
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be 0 (off) or more, got {self.top_k}")

    def __str__(self) -> str:
        law = "greedy" if self.greedy else f"temperature {self.temperature:g}, top-p {self.top_p:g}"
        if self.top_k and not self.greedy:
            law += f", top-k {self.top_k}"
        plural = "s" if self.samples > 1 else ""
        return f"{law}, {self.samples} response{plural} a problem of at most {self.max_new_tokens} tokens"


PRESETS: dict[str, dict[str, Any]] = {
    "aapo": {"samples": 1, "temperature": 0.6, "top_p": 0.95, "max_new_tokens": 32768},
    "canon": {"samples": 10, "temperature": 0.6, "max_new_tokens": 8192},
    "adora": {"samples": 1, "temperature": 0.8, "top_p": 0.95, "max_new_tokens": 10000},
}
"""How the papers evaluate. aapo: one response (pass@1). canon: Avg@10 on AIME24, AIME25 and AMC (pass@1 on the larger
sets: samples=1); top-p and the token limit of its evaluation are not published: none, and that of its training. adora:
as in the released `math_eval` script, one response."""

_DEFAULTS: dict[str, Any] = {"samples": 16, "temperature": 1.0, "top_p": 1.0, "top_k": 0, "greedy": False}


def resolve(preset: str | None, *, short: bool = False, **explicit: Any) -> Sampling:
    """The sampling of a preset (a key of PRESETS; None: 16 responses at temperature 1), with every explicit setting
    that is not None in its place. greedy without a number of samples draws one. short: the tasks are
    SHORT_TASKS, whose limit defaults to 96 tokens instead of 2048. Raises ValueError for an unknown preset and for what
    Sampling refuses."""
    if preset is not None and preset not in PRESETS:
        near = difflib.get_close_matches(str(preset), PRESETS, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown sampling preset {preset!r}: {hint}known are {', '.join(PRESETS)}")
    chosen = {**_DEFAULTS, "max_new_tokens": 96 if short else 2048, **PRESETS.get(preset or "", {})}
    given = {key: value for key, value in explicit.items() if value is not None}
    if given.get("greedy"):
        given.setdefault("samples", 1)
    return Sampling(**{**chosen, **given})


def as_dict(sampling: Sampling) -> dict[str, Any]:
    """{field: value}; a greedy one has no temperature, top_p and top_k."""
    found = asdict(sampling)
    if sampling.greedy:
        found.update(temperature=None, top_p=None, top_k=None)
    return found
