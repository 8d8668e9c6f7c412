"""What an estimator needs, and small pieces around the reward functions a trainer calls."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from upside.rewards import RewardError

MEASURED = frozenset(
    {"lengths", "entropy", "truncated", "valid", "correct", "reference_rewards", "total_steps"}
)  # Rollouts fields the trainer fills; any other need is a metric by name


def named(func: Any, name: str, step: Callable[[], int]) -> Any:
    """The function, raising RewardError with its name and the step where it raises. Reward models pass unchanged."""
    if isinstance(func, torch.nn.Module):
        return func

    def failure(error: Exception) -> RewardError:
        if isinstance(error, RewardError):  # it names the function already
            return RewardError(f"at step {step()}: {error}")
        return RewardError(f"reward function {name!r} raised {type(error).__name__} at step {step()}: {error}")

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except Exception as error:
            raise failure(error) from error

    @functools.wraps(func)
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        try:
            return await func(*args, **kwargs)
        except Exception as error:
            raise failure(error) from error

    return call_async if inspect.iscoroutinefunction(func) else call


def weighted(rewards: Tensor, weights: Tensor) -> Tensor:
    """(N, F) -> (N,): weighted sum of what was returned, NaN where every function returned None."""
    total = (rewards * weights.to(rewards.device)).nansum(1)
    return total.masked_fill(rewards.isnan().all(1), torch.nan)


def digest(prompt: Any) -> str:
    """A short fingerprint of a prompt (text or messages; an image counts by its type)."""
    text = json.dumps(prompt, sort_keys=True, default=lambda value: type(value).__name__)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def check_needs(needs: frozenset[str], correctness: object, given: set[str]) -> None:
    """ValueError for a need that neither the trainer measures nor `given` names supply."""
    missing = sorted(needs - MEASURED - given)
    if "correct" in needs and correctness is None:
        raise ValueError("the estimator needs correct, the outcome of each response; pass correctness=FUNCTION")
    if missing:
        raise ValueError(
            f"the estimator needs {', '.join(missing)}, which the trainer cannot measure; pass "
            f"response_metrics={{{missing[0]!r}: FUNCTION}} or give the data set a column of that name"
        )
