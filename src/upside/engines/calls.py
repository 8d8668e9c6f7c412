"""What an estimator needs, and small pieces around the reward functions a trainer calls."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from upside.rewards import RewardError


class AgreedRewardError(RewardError):
    """What a reward function of one process raised, raised by every process at the same point."""


MEASURED = frozenset(
    {"lengths", "entropy", "truncated", "valid", "correct", "reference_rewards", "total_steps"}
)  # Rollouts fields the trainer fills; any other need is a metric by name


def named(func: Any, name: str, step: Callable[[], int]) -> Any:
    """The function, raising RewardError with its name and the step where it raises. Reward models pass unchanged.

    Of several processes all raise (AgreedRewardError) where one's function does, so that none waits for the others in
    vain; not where the function is async, since several of those run at once in no fixed order.
    """
    if isinstance(func, torch.nn.Module):
        return func

    def failure(error: Exception) -> RewardError:
        if isinstance(error, RewardError):  # it names the function already
            return RewardError(f"at step {step()}: {error}")
        return RewardError(f"reward function {name!r} raised {type(error).__name__} at step {step()}: {error}")

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            output = func(*args, **kwargs)
        except AgreedRewardError:
            raise
        except Exception as error:
            together(None, failure(error))
            raise failure(error) from error
        together(None)
        return output

    @functools.wraps(func)
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        try:
            return await func(*args, **kwargs)
        except Exception as error:
            raise failure(error) from error

    return call_async if inspect.iscoroutinefunction(func) else call


def together(value: Any, failure: RewardError | None = None) -> list[Any]:
    """The values of all processes in rank order; a process alone gets its own back.

    failure: why this process has none. Where there are several and any has failed, all raise AgreedRewardError.
    """
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() == 1:
        return [value]
    parts: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(parts, (value, None if failure is None else str(failure)))
    failed = [(rank, text) for rank, (_, text) in enumerate(parts) if text is not None]
    if failed:
        rank, text = failed[0]
        raise AgreedRewardError(f"process {rank}: {text}") from failure
    return [part for part, _ in parts]


def raise_unloaded(pictures: Iterable[Any]) -> None:
    """Raise the error that stands in place of a row's pictures (`upside.training.prompts.prompt_rows`); of several
    processes all raise AgreedRewardError where one has any, so that each can save what was done."""
    failed = next((each for each in pictures if isinstance(each, Exception)), None)
    together(None, None if failed is None else RewardError(str(failed)))
    if failed is not None:
        raise failed


def sample_number(batch: int, place: int, group_size: int, samples: int) -> int:
    """Which of a prompt's tabled reference samples (from 0) is paired with the response at `place` (from 0) of its
    group in training batch `batch` (from 1): counted on from batch to batch, round the samples there are."""
    return ((batch - 1) * group_size + place) % samples


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
