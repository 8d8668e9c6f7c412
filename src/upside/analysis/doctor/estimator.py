"""Checks of the advantages: what the estimator made of the rewards, and whether that is what was trained on."""

from __future__ import annotations

from typing import Any

import numpy as np

import upside
from upside.analysis.doctor.checks import Missing, Verdict, check, graded, graded_below, worse
from upside.analysis.doctor.view import View
from upside.metrics import ZERO

RECOMPUTED = 12  # steps whose advantages are computed anew, evenly spread


def _estimator(view: View) -> upside.Estimator:
    spec = view.log.recipe.get("estimator") or view.log.summary.get("estimator")
    if not spec:
        raise Missing("the log does not say which estimator was used")
    try:
        return upside.estimator(str(spec))
    except ValueError as error:
        raise Missing(f"the estimator cannot be built here: {error}") from None


@check(
    title="Advantages far out",
    looks_at="largest |advantage| by step",
    rule="warn from {warn:g}, fail from {fail:g}: a group of G has at most (G-1)/sqrt(G) under GRPO, 2.5 for G = 8 "
    "and 7.9 for G = 64; more comes from a division by a standard deviation near 0",
    remedy="group_std with the default eps, or no scaling (dr_grpo, rloo); rewards that differ by rounding alone are "
    "equal: round them; look at the group with `upside explain`",
    warn=10,
    fail=50,
)
def advantage_outliers(view: View, limit: Any) -> Verdict:
    largest = view.series("advantage_abs_max")
    top = float(largest.values.max())
    level = graded(top, limit)
    where = largest.steps[largest.values >= limit.warn][:10].tolist()
    return Verdict(level, f"largest |advantage| {top:.3g}, usually {float(np.median(largest.values)):.3g}", where)


@check(
    title="Advantages vanish",
    looks_at="share of zero advantages and their standard deviation by step",
    rule="warn where {warn:.0%} of the recent advantages are 0 or their spread is {spread:.0%} of the first, fail "
    "from {fail:.0%}; not where nearly all responses are right",
    remedy="see too_easy_groups, too_hard_groups and dead_groups for the cause; larger groups (group_size), sampling "
    "of prompts by difficulty, aapo or canon:alpha=0.96 on groups that are all alike",
    warn=0.8,
    fail=0.95,
    spread=0.1,
)
def vanishing_advantages(view: View, limit: Any) -> Verdict:
    zero, spread = view.known("zero_advantage_share"), view.known("advantage_std")
    if zero is None and spread is None:
        view.series("advantage")
    levels, texts = [], []
    if zero is not None:
        levels.append(graded(zero.recent, limit))
        texts.append(f"{zero.recent:.0%} of the recent advantages are 0 ({zero.early:.0%} at first)")
    if spread is not None and spread.early > 0:
        levels.append("warn" if spread.recent <= limit.spread * spread.early else "ok")
        texts.append(f"standard deviation {spread.early:.3g} at first, {spread.recent:.3g} recently")
    return Verdict("ok" if view.learned else worse(*levels, "ok"), "; ".join(texts))


@check(
    title="The signal sits on few responses",
    looks_at="advantages of the recent steps",
    rule="effective share of responses, (sum |A|)^2 / (N sum A^2): warn at {warn:.0%} or less, fail at {fail:.0%}: "
    "the step is then the gradient of a handful of responses; not where nearly all responses are right",
    remedy="more prompts per step, larger groups, no division by small standard deviations (dr_grpo), weights closer "
    "to 1 (adora_weight: weight_tds)",
    warn=0.05,
    fail=0.01,
)
def concentrated_signal(view: View, limit: Any) -> Verdict:
    view.rows("advantage")
    values = np.nan_to_num(view.log.numbers("advantage")[view.recent])
    if not values.any():
        raise Missing("every recent advantage is 0")
    share = float(np.abs(values).sum() ** 2 / (len(values) * (values**2).sum()))
    text = f"the recent steps weigh as {share:.1%} of their {len(values)} responses would, weighted alike"
    return Verdict("ok" if view.learned else graded_below(share, limit), text)


@check(
    title="Equal rewards, unequal to zero",
    looks_at="advantages of groups whose rewards are all equal",
    rule="fail from {fail:.0%} of these groups with |A| above {above:g}: where all did alike there is nothing to "
    "prefer. Not asked of estimators that mean it (a batch's baseline, AAPO's margin, CANON with alpha != 1)",
    remedy="baseline and spread per group id, in float64, with constant groups at exactly 0; groups of unequal size "
    "must not be reshaped to a rectangle",
    fail=0.01,
    above=1e-3,
)
def constant_group_signal(view: View, limit: Any) -> Verdict:
    view.rows("advantage")
    try:
        means_it = not _estimator(view).zero_on_constant
    except Missing:
        means_it = False
    groups = view.groups
    size = np.abs(np.nan_to_num(view.log.numbers("advantage")))[groups.order]
    moved = np.maximum.reduceat(size, groups.starts)[groups.constant] > limit.above
    if not len(moved):
        return Verdict("ok", "no group has equal rewards throughout")
    text = f"{moved.sum()} of {len(moved)} groups of equal rewards have advantages other than 0"
    if means_it:
        return Verdict("ok", f"{text}, as the estimator has it")
    steps = np.unique(groups.step[groups.constant][moved])[:10]
    return Verdict(graded(float(moved.mean()), limit), text, steps.tolist())


@check(
    title="Logged advantages are not the estimator's",
    looks_at="rewards, groups and what the recipe's estimator needs; advantages as logged",
    rule="fail from {fail:.1%} of the responses of the steps looked at, off by more than {off:g} of the largest: "
    "what was logged, or trained on, is something else",
    remedy="log the advantages after the last change to them; look for a second normalisation, a mask applied late, "
    "rows in another order than the rewards, or another estimator than the recipe names",
    fail=0.005,
    off=1e-3,
)
def advantages_differ(view: View, limit: Any) -> Verdict:
    view.rows("advantage")
    estimator = _estimator(view)
    if estimator.state_dict():
        raise Missing("the estimator keeps state, so a step cannot be computed alone")
    steps = list(view.log.by_step())
    picked = [steps[i] for i in sorted({round(x) for x in np.linspace(0, len(steps) - 1, RECOMPUTED)})]
    wrong, total, where = 0, 0, []
    for step, rows in picked:
        try:
            values = estimator(view.log.rollouts(rows, step=step)).values.double().numpy()
        except ValueError as error:
            raise Missing(f"step {step} cannot be computed anew: {error}") from None
        off = np.abs(values - np.nan_to_num(view.log.numbers("advantage")[rows]))
        bad = int((off > limit.off * max(1.0, float(np.abs(values).max()))).sum())
        wrong, total = wrong + bad, total + len(rows)
        where += [step] if bad else []
    text = f"{wrong} of {total} advantages in {len(picked)} steps differ from those of {estimator}"
    return Verdict(graded(wrong / max(total, 1), limit), text, where[:10])


@check(
    title="The weights change the step's size",
    looks_at="weights of responses with a signal; else ADORA's logged mean weight",
    rule="warn below {low:g} or above {high:g} on average: a weight other than 1 acts like another learning rate where "
    "the optimiser keeps the gradient's scale (SGD) or more than {clipped:.0%} of the steps are clipped, and changes "
    "the balance with a KL term or entropy bonus. Adam cancels a constant factor, so without these it is ok, unless "
    "the weights fell to {fell:.0%} or less of the first steps': Adam remembers those gradients for a thousand updates",
    remedy="adora_weight:normalize_mean_weight=true; by hand: lr divided by the mean weight (SGD, clipping), beta and "
    "entropy_bonus times it",
    low=0.5,
    high=2,
    clipped=0.1,
    fell=0.5,
)
def mean_weight(view: View, limit: Any) -> Verdict:
    if len(view.log) and view.log.has("weight"):
        weight = view.log.numbers("weight")
        signal = (np.abs(np.nan_to_num(view.log.numbers("advantage"))) > ZERO) | (weight == 0)
        recent, early = (rows[signal[rows]] for rows in (view.recent, view.early))
        if not len(recent):
            raise Missing("no recent response has a signal")
        mean = float(weight[recent].mean())
        first = float(weight[early].mean()) if len(early) else mean
        text = f"mean weight {mean:.2f} over the recent responses that have a signal, {first:.2f} over the first"
    else:
        series = view.known("adora_mean_weight")
        if series is None:
            raise Missing("the estimator has no weights")
        mean, first = series.recent, series.early
        text = f"mean weight {mean:.2f} recently, {first:.2f} at first"
    if limit.low <= mean <= limit.high:
        return Verdict("ok", text)
    if mean > limit.fell * first and _scale_cancels(view, limit.clipped):
        return Verdict("ok", f"{text}; Adam cancels its scale, and no KL term, entropy bonus or clipping depends on it")
    return Verdict("warn", text)


def _scale_cancels(view: View, clipped: float) -> bool:
    """Whether a constant factor of all advantages would leave the run as it is, as far as the log tells."""
    recipe = view.log.recipe
    if "beta" not in recipe or "max_grad_norm" not in recipe:  # another engine's log
        return False
    if recipe["beta"] or recipe.get("entropy_bonus") or "adam" not in (recipe.get("trl") or {}).get("optim", "adamw"):
        return False
    norms = view.known("grad_norm")
    return norms is not None and float((norms.values > recipe["max_grad_norm"]).mean()) <= clipped


@check(
    title="ADORA's weights are all alike",
    looks_at="which prompts with a signal are advantageous (tas); else ADORA's logged share",
    rule="warn where {warn:.0%} of the recent prompts with a signal are on one side: the weight is then a constant "
    "and the estimator the one without it",
    remedy="another criterion (adora_weight: criteria=difficulty, and, or), tau nearer to the pass rate; lengths that "
    "are real (`equal_lengths`), correctness that is judged apart from the reward",
    warn=0.97,
)
def adora_constant(view: View, limit: Any) -> Verdict:
    if len(view.log) and view.log.has("tas"):
        rows = view.recent
        groups = np.unique(view.log.codes("group")[rows], return_index=True)[1]
        mixed = ~view.groups.spread(view.groups.constant)[rows][groups]
        side = view.log.numbers("tas")[rows][groups][mixed]
        if len(side) < 10:
            raise Missing(f"{len(side)} recent groups with a signal; the question is asked of 10 or more")
        share = float(side.mean())
    else:
        series = view.known("adora_tas_share")
        if series is None:
            raise Missing("the estimator is not ADORA")
        share = series.recent
    level = graded(max(share, 1 - share), limit)
    return Verdict(level, f"{share:.0%} of the recent prompts with a signal are advantageous")


@check(
    title="CANON's halves are tied",
    looks_at="the metric within groups that have a signal; else the logged share of tied groups",
    rule="warn from {warn:.0%} of the recent groups, fail from {fail:.0%}: where all responses have one metric there "
    "are no halves, and the group falls back to Dr.GRPO",
    remedy="a metric that varies (entropy instead of length, or the other way round; metric=NAME), a higher "
    "temperature; for lengths see `equal_lengths`",
    warn=0.3,
    fail=0.9,
)
def canon_tied(view: View, limit: Any) -> Verdict:
    if len(view.log) and view.log.has("half") and view.log.has("metric"):
        groups = view.groups
        mixed = view.recent_groups() & ~groups.constant & (groups.size > 1)
        if mixed.sum() < 10:
            raise Missing(f"{mixed.sum()} recent groups with a signal; the question is asked of 10 or more")
        share = float(groups.all_same(view.log.numbers("metric"))[mixed].mean())
        text = f"{share:.0%} of the {mixed.sum()} recent groups with a signal have one metric throughout"
    else:
        series = view.known("canon_tied_groups")
        if series is None:
            raise Missing("the estimator is not CANON")
        share, text = series.recent, f"{series.recent:.0%} of the recent groups have one metric throughout"
    return Verdict(graded(share, limit), text)


@check(
    title="AAPO's margin is a constant",
    looks_at="margins of the recent responses",
    rule="warn from {warn:.0%} of them at one and the same bound, fail from {fail:.0%}: the margin then pushes "
    "every response alike, up or down, and tells nothing apart",
    remedy="a reference that is nearer to the policy (build a new reference table from a checkpoint), wider bounds "
    "(reference_margin: low, high), or the estimator without it from here on",
    warn=0.85,
    fail=0.97,
)
def margin_saturation(view: View, limit: Any) -> Verdict:
    view.rows("margin")
    rows = view.recent[~np.isnan(view.log.numbers("reward")[view.recent])]
    margin = np.round(view.log.numbers("margin")[rows], 6)
    ends = [float((margin == end).mean()) for end in (margin.min(), margin.max()) if end != 0]
    share = max(ends, default=0.0)
    text = f"{share:.0%} of the recent margins are the same; mean {margin.mean():+.3f}"
    return Verdict(graded(share, limit), text)


@check(
    title="Reference rewards are missing",
    looks_at="reference rewards; else the logged share of missing ones",
    rule="warn from {warn:.0%} of the recent responses, fail from {fail:.0%}: their margin is 0",
    remedy="build the reference table for all prompts (upside reference build), or reference_missing=fresh",
    warn=0.02,
    fail=0.5,
)
def reference_missing(view: View, limit: Any) -> Verdict:
    missing = view.known("reference_missing_share")
    if missing is None:
        raise Missing("the estimator reads no reference rewards")
    return Verdict(graded(missing.recent, limit), f"{missing.recent:.1%} of the recent responses have none")
