"""Checks of the policy's movement: entropy, clipping, KL, gradients, time."""

from __future__ import annotations

from typing import Any

import numpy as np

from upside.analysis.doctor.checks import Verdict, check, graded, graded_below
from upside.analysis.doctor.view import View

UPDATE = ("loss", "grad_norm", "lr", "kl", "entropy", "reward")  # what must be a number at every step that logs it


@check(
    title="Entropy collapse",
    looks_at="mean entropy per token by step, with correctness (else the reward)",
    rule="where the recent entropy is {threshold:.0%} of the first or less, and the responses are not yet right: "
    "warn where correctness has stopped rising (last quarter against the one before, {errors:g} standard errors), fail "
    "where the entropy is also at {fail:.0%} or less: without entropy a group's responses become alike and learning "
    "ends there; a run that goes from 25% to 90% right may well keep a tenth of it",
    remedy="epsilon_high=0.28 (clip higher), entropy_bonus, a lower lr, temperature 1.0, fewer passes over a batch "
    "(num_iterations=1)",
    threshold=0.1,
    fail=0.03,
    errors=2,
)
def entropy_collapse(view: View, limit: Any) -> Verdict:
    entropy = view.series("entropy").trend()
    ratio = entropy.recent / max(entropy.early, 1e-9)
    text = f"{entropy.early:.3f} nats per token at first, {entropy.recent:.3f} recently (x{ratio:.2f})"
    better = view.known("accuracy") or view.known("reward")
    if better is None or ratio > limit.threshold or view.learned:
        return Verdict("ok", text)
    gain, errors = better.gain(len(better) // 2, len(better) // 4)
    text += f"; {better.name} {gain:+.3f} from the third quarter to the last, {better.recent:.3f} recently"
    if errors >= limit.errors:
        return Verdict("ok", f"{text}: still rising")
    return Verdict("fail" if ratio <= limit.fail else "warn", text, entropy.recent_steps)


@check(
    title="Entropy explosion",
    looks_at="mean entropy per token by step",
    rule="warn where the recent entropy is {warn:g} times the first and {nats:g} nats above it, fail from {fail:g} "
    "times: the policy drifts towards noise",
    remedy="entropy_bonus=0, a lower lr, a smaller epsilon_high or delta, mask_truncated=true; look at "
    "`truncation` and `repetition`, which come with it",
    warn=2,
    fail=4,
    nats=0.3,
)
def entropy_explosion(view: View, limit: Any) -> Verdict:
    entropy = view.series("entropy").trend()
    ratio = entropy.recent / max(entropy.early, 1e-9)
    text = f"{entropy.early:.3f} nats per token at first, {entropy.recent:.3f} recently (x{ratio:.2f})"
    level = graded(ratio, limit) if entropy.recent - entropy.early >= limit.nats else "ok"
    return Verdict(level, text, entropy.recent_steps if level != "ok" else ())


@check(
    title="Many tokens clipped",
    looks_at="share of tokens at the ratio's bound by step",
    rule="warn from {warn:.0%} recently, fail from {fail:.0%}: a clipped token has no gradient, and usual shares "
    "are a few percent",
    remedy="fewer optimiser steps per batch (minibatches, num_iterations), a lower lr, a wider epsilon; where the very "
    "first step of a batch clips, sampler and trainer disagree on the probabilities",
    warn=0.2,
    fail=0.5,
)
def clip_share(view: View, limit: Any) -> Verdict:
    clipped = view.series("clip_share")
    return Verdict(graded(clipped.recent, limit), f"{clipped.recent:.1%} recently, {clipped.early:.1%} at first",
                   clipped.recent_steps)  # fmt: skip


@check(
    title="The policy leaves its reference",
    looks_at="KL to the reference by step",
    rule="warn from {warn:g} nats per token recently, fail from {fail:g}, if that is also {growth:g} times the KL "
    "at first: usual values stay well below that",
    remedy="a higher beta, a lower lr, warmup; look at responses of a recent step: are they still language?",
    warn=0.5,
    fail=1.5,
    growth=3,
)
def kl_blowup(view: View, limit: Any) -> Verdict:
    kl = view.series("kl")
    grown = kl.recent >= limit.growth * max(kl.early, 0.0)
    return Verdict(graded(kl.recent, limit) if grown else "ok", f"{kl.early:.3f} nats at first, {kl.recent:.3f} "
                   "recently", kl.recent_steps)  # fmt: skip


@check(
    title="Gradient spikes",
    looks_at="gradient norm by step",
    rule="a spike is {times:g} times the median; warn from {warn:.0%} of the steps and {least:g} spikes, fail from "
    "{fail:.0%}: single ones are caught by max_grad_norm, many are not",
    remedy="max_grad_norm, a lower lr or more warmup, dtype=float32 for a trial; look at the responses and advantages "
    "of those steps (`upside explain --step`)",
    times=10,
    least=3,
    warn=0.01,
    fail=0.05,
)
def gradient_spikes(view: View, limit: Any) -> Verdict:
    norm = view.series("grad_norm").trend()
    median = float(np.median(norm.values))
    spikes = norm.values > limit.times * max(median, 1e-12)
    level = graded(float(spikes.mean()), limit) if spikes.sum() >= limit.least else "ok"
    return Verdict(level, f"{spikes.sum()} of {len(norm)} steps above {limit.times:g} times the median {median:.3g}, "
                   f"largest {norm.values.max():.3g}", norm.steps[spikes][:10].tolist())  # fmt: skip


@check(
    title="Numbers that are none",
    looks_at="loss, gradient norm, learning rate, KL, entropy and reward by step; each response's reward; a logged "
    "count of NaN",
    rule="fail from {fail:g} step: NaN or infinity, which a step with it writes into every weight",
    remedy="go back to the checkpoint before the first of them; dtype=float32 for a trial, a lower lr, max_grad_norm; "
    "look for empty responses and rewards that are not finite",
    fail=1,
)
def not_finite(view: View, limit: Any) -> Verdict:
    view.series("loss" if view.known("loss") is not None else "reward")
    logged = {name for name in UPDATE if sum(name in row for row in view.metrics) > len(view.metrics) / 2}
    bad = {int(row.get("step", index)) for index, row in enumerate(view.metrics, 1) if _broken(row, logged)}
    if len(view.log):
        bad |= set(view.log.codes("step")[np.isinf(view.log.numbers("reward"))].tolist())
    steps = max(len(view.metrics), len(view.log.steps))
    return Verdict(graded(len(bad), limit), f"{len(bad)} of {steps} steps hold NaN or infinity", sorted(bad)[:10])


def _broken(row: dict[str, Any], names: set[str]) -> bool:
    """A number of the update that is null (what metrics.jsonl writes for NaN) or not finite, or a counted NaN."""
    values = [row.get(name, 0.0) for name in names if name in row]
    if any(value is None or not np.isfinite(value) for value in values):
        return True
    return (row.get("nan_count") or 0) + (row.get("inf_count") or 0) > 0


@check(
    title="Steps that change nothing",
    looks_at="learning rate and gradient norm by step",
    rule="warn from {warn:.0%} of the steps with a learning rate or a gradient of 0, fail from {fail:.0%}",
    remedy="lr and schedule (warmup longer than the run?), whether the optimiser holds the trained parameters (LoRA: "
    "requires_grad), and `dead_groups`: a batch of dead groups has no gradient",
    warn=0.2,
    fail=0.8,
)
def no_update(view: View, limit: Any) -> Verdict:
    series = [found for name in ("grad_norm", "lr") if (found := view.known(name)) is not None]
    if not series:
        view.series("grad_norm")
    shares = {found.name: float((found.values == 0).mean()) for found in series}
    text = ", ".join(f"{name} is 0 in {share:.0%} of the steps" for name, share in shares.items())
    return Verdict(graded(max(shares.values()), limit), text)


@check(
    title="The value function explains nothing",
    looks_at="explained variance of a critic (PPO; the estimators here have none)",
    rule="warn at {warn:g} or less recently, fail at {fail:g}: the critic is worse than a constant",
    remedy="a lower critic lr, value warm-up steps, a check of the returns; or a critic-free estimator",
    warn=0,
    fail=-0.3,
)
def value_function(view: View, limit: Any) -> Verdict:
    explained = view.series("explained_variance")
    text = f"explained variance {explained.early:.2f} at first, {explained.recent:.2f} recently"
    return Verdict(graded_below(explained.recent, limit), text, explained.recent_steps)


@check(
    title="Steps get slower",
    looks_at="seconds by step",
    rule="warn where the recent median is {warn:g} times the first and {seconds:g} s above it",
    remedy="longer responses cost time (max_new_tokens, `length_runaway`); else memory that fills, a verifier that "
    "hangs (`verifier_timeouts`), or another job on the machine",
    warn=2,
    seconds=0.5,
)
def slow_steps(view: View, limit: Any) -> Verdict:
    seconds = view.series("seconds").trend()
    first, last = (
        float(np.median(part)) for part in (seconds.values[: seconds.width], seconds.values[-seconds.width :])
    )
    text = f"{first:.2f} s a step at first, {last:.2f} s recently"
    length = view.known("length")
    if length is not None and len(length) >= 10:
        text += f"; mean length x{length.recent / max(length.early, 1e-9):.1f}"
    slow = last >= limit.warn * first and last - first >= limit.seconds
    return Verdict("warn" if slow else "ok", text, seconds.recent_steps if slow else ())


@check(
    title="Steps missing from the log",
    looks_at="step numbers of the rollouts, else of the metrics",
    rule="warn from {warn:g} step left out of an otherwise even sequence: the findings then rest on a part of the run",
    remedy="nothing in the run itself; keep the log of every process and of every part of a resumed run",
    warn=1,
)
def log_gaps(view: View, limit: Any) -> Verdict:
    metric_steps = sorted({int(row["step"]) for row in view.metrics if isinstance(row.get("step"), int | float)})
    steps = np.array(view.log.steps if len(view.log) else metric_steps)
    if len(steps) < 3:
        return Verdict("ok", f"{len(steps)} steps")
    strides, counts = np.unique(np.diff(steps), return_counts=True)
    usual = int(strides[counts.argmax()])
    absent = np.setdiff1d(np.arange(steps[0], steps[-1], usual), steps).tolist()
    return Verdict(
        graded(len(absent), limit),
        f"{len(steps)} steps from {steps[0]} to {steps[-1]}, {len(absent)} left out",
        absent[:10],
    )
