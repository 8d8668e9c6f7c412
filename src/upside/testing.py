"""Does an estimator keep the rules? `check_estimator(est)` tries them one by one, as sklearn's check_estimator does.

import upside
from upside.testing import check_estimator

check_estimator(upside.estimator("my_stage > adora_weight"))   # AssertionError lists every broken rule
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from upside.chains import Estimator
from upside.chains import estimator as build
from upside.rollouts import Rollouts

FIELDS = ("lengths", "entropy", "correct", "truncated", "reference_rewards")


@dataclass(frozen=True)
class Check:
    """The outcome of one rule. message says what was seen when it was broken."""

    rule: str
    passed: bool
    message: str = ""


def example_batch(seed: int = 0, groups: int = 6, needs: Iterable[str] = ()) -> dict[str, Any]:
    """Fields of a Rollouts: groups of 2 to 9 rows in mixed order, every optional field, metrics named in `needs`."""
    g = torch.Generator().manual_seed(seed)
    sizes = torch.randint(2, 10, (groups,), generator=g)
    index = torch.repeat_interleave(torch.arange(groups), sizes)
    index = index[torch.randperm(len(index), generator=g)]
    n = len(index)
    uniform = lambda: torch.rand(n, generator=g, dtype=torch.float64)  # noqa: E731
    rewards = (uniform() < 0.5).double()
    known = {*FIELDS, "total_steps"}
    return {
        "rewards": rewards,
        "groups": index,
        "lengths": torch.randint(1, 60, (n,), generator=g),
        "entropy": uniform(),
        "correct": rewards == 1,
        "truncated": uniform() < 0.1,
        "reference_rewards": (uniform() < 0.4).double(),
        "metrics": {name: uniform() for name in sorted(set(needs) - known)},
        "step": 3,
        "total_steps": 10,
    }


def check_estimator(
    estimator: Estimator | str, *, skip: Iterable[str] = (), seed: int = 0, raise_errors: bool = True
) -> list[Check]:
    """Try every rule on `estimator`; returns one Check per rule.

    skip: names of rules that do not apply (a shuffle cannot keep "row_order"). seed: of the example batches.
    Raises AssertionError listing the broken rules, unless raise_errors=False; ValueError for an unknown rule.
    """
    est = build(estimator)
    unknown = set(skip) - set(RULES)
    if unknown:
        raise ValueError(f"unknown rules {sorted(unknown)}; there are {', '.join(RULES)}")
    checks = [_try(rule, est, seed) for rule in RULES if rule not in set(skip)]
    broken = [c for c in checks if not c.passed]
    if broken and raise_errors:
        lines = "\n".join(f"  {c.rule}: {c.message}" for c in broken)
        raise AssertionError(f"{est.spec} breaks {len(broken)} of {len(checks)} rules:\n{lines}")
    return checks


def _try(rule: str, est: Estimator, seed: int) -> Check:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            RULES[rule](est, example_batch(seed, needs=est.needs))
    except Exception as error:  # a rule is broken by whatever the estimator raises
        return Check(
            rule, False, f"{error}" if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        )
    return Check(rule, True)


def _values(est: Estimator, fields: dict[str, Any]) -> Tensor:
    return est(Rollouts(**fields)).values


def _pick(fields: dict[str, Any], rows: Tensor) -> dict[str, Any]:
    """The same fields at these rows."""
    picked = {k: v[rows] if isinstance(v, Tensor) else v for k, v in fields.items()}
    return picked | {"metrics": {k: v[rows] for k, v in fields["metrics"].items()}}


def _same(got: Tensor, want: Tensor, what: str) -> None:
    gap = (got - want).abs()
    row = int(gap.argmax())
    assert bool(gap.max() <= 1e-5), f"{what}: row {row} is {float(got[row]):.6g}, expected {float(want[row]):.6g}"


def _output(est: Estimator, fields: dict[str, Any]) -> None:
    result = est(Rollouts(**fields))
    assert result.values.dtype == torch.float32, f"values are {result.values.dtype}, expected torch.float32"
    assert result.values.shape == fields["rewards"].shape, f"values have shape {tuple(result.values.shape)}"
    assert bool(result.values.isfinite().all()), "values are not all finite"
    odd = [k for k, v in result.metrics.items() if type(v) is not float]
    assert not odd, f"metrics {odd} are no plain floats"


def _pure(est: Estimator, fields: dict[str, Any]) -> None:
    batch, before = Rollouts(**fields), Rollouts(**copy.deepcopy(fields))
    first, state = est(batch).values, est.state_dict()
    for name in ("rewards", *FIELDS):
        assert torch.equal(getattr(batch, name), getattr(before, name)), f"the batch's {name} were changed in place"
    for name, metric in batch.metrics.items():
        assert torch.equal(metric, before.metrics[name]), f"the batch's metrics[{name!r}] was changed in place"
    if not state:
        assert torch.equal(est(batch).values, first), "two calls on one batch differ, and there is no state_dict"


def _row_order(est: Estimator, fields: dict[str, Any]) -> None:
    order = torch.randperm(len(fields["rewards"]), generator=torch.Generator().manual_seed(1))
    _same(_values(est, _pick(fields, order)), _values(est, fields)[order], "rows in another order")


def _group_labels(est: Estimator, fields: dict[str, Any]) -> None:
    names = [f"uid-{7919 * (i + 3) % 101:x}" for i in fields["groups"].tolist()]
    _same(_values(est, fields | {"groups": names}), _values(est, fields), "groups named by strings")


def _group_local(est: Estimator, fields: dict[str, Any]) -> None:
    if not est.group_local:
        return
    some = fields["groups"] % 2 == 0
    alone = _values(est, _pick(fields, some) | {"step": fields["step"] + 4})
    _same(alone, _values(est, fields)[some], "its groups without the others, at another step, though group_local")


def _invalid_rows(est: Estimator, fields: dict[str, Any]) -> None:
    n = len(fields["rewards"])
    rows = torch.arange(n) % 7 != 3
    rewards = torch.where(rows, fields["rewards"], torch.nan)
    values = _values(est, fields | {"rewards": rewards})
    assert bool((values[~rows] == 0).all()), "a row with a NaN reward got an advantage"
    _same(values[rows], _values(est, _pick(fields, rows)), "rows without a reward enter the statistics")


def _constant_groups(est: Estimator, fields: dict[str, Any]) -> None:
    if not est.zero_on_constant:
        return
    for value in (0.0, 1.0, 0.1, 0.7, 2.3):
        values = _values(est, fields | {"rewards": torch.full_like(fields["rewards"], value)})
        worst = float(values.abs().max())
        assert worst == 0, f"rewards all {value} give advantages up to {worst:.3g}, expected exactly 0"
    one = fields["groups"] == fields["groups"][0]  # a constant group beside others that are not
    worst = float(_values(est, fields | {"rewards": torch.where(one, 0.7, fields["rewards"])})[one].abs().max())
    assert worst == 0, f"a group of equal rewards among others gets up to {worst:.3g}, expected exactly 0"


def _singletons(est: Estimator, fields: dict[str, Any]) -> None:
    if not any(s.info.group_relative for s in est.stages):
        return
    lone = fields["groups"].clone()
    lone[0] = 1000
    value = float(est.trace(Rollouts(**fields | {"groups": lone}))[0].values[0])
    assert value == 0, f"the baseline gives a group of one {value:.3g}, expected 0"
    try:
        est(Rollouts(**fields | {"groups": torch.arange(len(lone))}))
    except ValueError:
        return
    raise AssertionError("a batch of nothing but groups of one raises no error")


def _needs(est: Estimator, fields: dict[str, Any]) -> None:
    bare = {k: v for k, v in fields.items() if k in {"rewards", "groups", "step", "metrics"} | est.needs}
    _same(_values(est, bare), _values(est, fields), f"a batch with {sorted(est.needs)} alone, what it says it needs")


def _spec(est: Estimator, fields: dict[str, Any]) -> None:
    _same(_values(build(str(est)), fields), _values(est, fields), f"the chain read back from {str(est)!r}")


def _state(est: Estimator, fields: dict[str, Any]) -> None:
    batch = Rollouts(**fields)
    state = est.state_dict()
    est(replace(batch, training=False))
    assert est.state_dict() == state, "a batch with training=False changed the state"
    est(batch)
    est.load_state_dict(state)
    assert est.state_dict() == state, "load_state_dict(state) does not give the state back"


def _no_loop(est: Estimator, fields: dict[str, Any]) -> None:
    small, large = (Rollouts(**example_batch(groups=k, needs=est.needs)) for k in (50, 400))
    few, many = _steps(est, small), _steps(est, large)
    assert many < few + 200, (
        f"{few} Python steps for {len(small)} rows, {many} for {len(large)}: a loop over rows or groups"
    )


def _steps(est: Estimator, batch: Rollouts) -> int:
    """Lines run and functions called, of Python and C."""
    count = 0

    def note(frame: Any, event: str, arg: Any) -> Any:
        nonlocal count
        count += event in ("line", "call", "c_call")
        return note

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(note)
    sys.setprofile(note)
    try:
        est(batch)
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    return count


RULES: dict[str, Callable[[Estimator, dict[str, Any]], None]] = {
    "output": _output,
    "pure": _pure,
    "row_order": _row_order,
    "group_labels": _group_labels,
    "group_local": _group_local,
    "invalid_rows": _invalid_rows,
    "constant_groups": _constant_groups,
    "singletons": _singletons,
    "needs": _needs,
    "spec": _spec,
    "state": _state,
    "no_loop": _no_loop,
}
