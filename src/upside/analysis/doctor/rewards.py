"""Checks of the rewards: whether they move, whether they mean correctness, and whether the judge works."""

from __future__ import annotations

from typing import Any

import numpy as np

from upside.analysis.doctor.checks import Missing, Verdict, check, graded, graded_below
from upside.analysis.doctor.view import Series, View, means_correctness


@check(
    title="The reward does not move",
    looks_at="mean reward by step",
    rule="warn where, after {steps:.0f} steps or more, the last tenth is less than {errors:g} standard errors "
    "above the first: what moved is within noise; not where nearly all responses are right",
    remedy="look at the other findings first (groups without a signal, clipping, a learning rate of 0); then lr, "
    "prompts_per_step (more prompts, less noise), and whether the base model is ever right (`upside evaluate -k 8`)",
    steps=60,
    errors=2,
)
def reward_not_moving(view: View, limit: Any) -> Verdict:
    reward = view.series("reward")
    if len(reward) < limit.steps:
        raise Missing(f"{len(reward)} steps; whether the reward moves is asked after {limit.steps:.0f}")
    _, errors = reward.gain()
    text = f"mean reward {reward.early:.3f} at first, {reward.recent:.3f} recently ({_errors(errors)})"
    still = errors < limit.errors and not view.learned
    return Verdict("warn" if still else "ok", text, reward.recent_steps if still else ())


@check(
    title="The reward has stopped rising",
    looks_at="mean reward by step",
    rule="warn where, after {steps:.0f} steps or more, a run that had risen gained less than {warn:.0%} of its rise "
    "from the third quarter to the last, and no more than noise ({errors:g} standard error): the rest of the budget "
    "buys nothing; not where nearly all responses are right. Not asked while a run is under way",
    remedy="stop here, or change what holds it: prompts at the edge of what the model can do, more responses a prompt "
    "(group_size), entropy that is left (`entropy_collapse`), a schedule that still has a learning rate",
    steps=60,
    warn=0.05,
    errors=1,
)
def reward_plateau(view: View, limit: Any) -> Verdict:
    reward = view.series("reward")
    if len(reward) < limit.steps:
        raise Missing(f"{len(reward)} steps; whether the reward still rises is asked after {limit.steps:.0f}")
    rise = float(reward.rolling().max()) - reward.early
    gain, errors = reward.gain(len(reward) // 2, len(reward) // 4)
    text = (
        f"mean reward {reward.early:.3f} at first, {reward.recent:.3f} recently, {gain:+.3f} from the third quarter on"
    )
    flat = rise > 0 and gain < limit.warn * rise and errors < limit.errors and not view.learned
    still = reward.gain()[1] < 2  # it never rose: `reward_not_moving`
    return Verdict("warn" if flat and not still else "ok", text, reward.recent_steps if flat and not still else ())


@check(
    title="The reward fell back",
    looks_at="mean reward by step",
    rule="warn where the recent mean lies {warn:.0%} of the best gain below the best window, fail from {fail:.0%}, "
    "if that is {errors:g} standard errors or more: a policy that loses what it had learned has broken; fail where no "
    "later step reaches {once:.0%} of the first",
    remedy="go back to a checkpoint before it (checkpoints/, save_every); lower lr, add warmup, beta > 0 or a smaller "
    "epsilon_high; look at entropy, KL and gradient norms around that step",
    warn=0.3,
    fail=0.6,
    errors=4,
    once=0.1,
)
def reward_collapse(view: View, limit: Any) -> Verdict:
    reward = view.series("reward")
    if _lost_at_once(view, limit):
        text = (
            f"mean reward {reward.values[0]:.3f} at step {reward.steps[0]}, {reward.values[1:].max():.3f} at best after"
        )
        return Verdict("fail", text, reward.steps[:2].tolist())
    reward = reward.trend()
    means = reward.rolling()
    top = int(means.argmax())
    drop = float(means[top] - means[-1])
    gained = float(means[top] - min(means[0], means[-1]))
    best, last = reward.values[top : top + reward.width], reward.values[-reward.width :]
    noise = float(np.sqrt((best.var() + last.var()) / reward.width))
    text = f"mean reward {means[top]:.3f} around step {reward.steps[top]}, {means[-1]:.3f} recently"
    if gained <= 0 or drop < limit.errors * noise:
        return Verdict("ok", text)
    return Verdict(graded(drop / gained, limit), text, [int(reward.steps[top]), int(reward.steps[-1])])


def _lost_at_once(view: View, limit: Any) -> bool:
    """Whether the first step's update left next to nothing of its reward (10 steps tell), beyond the noise of its
    responses."""
    reward, spread = view.series("reward"), view.known("reward_std")
    if len(reward) < 10 or spread is None or not len(spread) or not len(view.log):
        return False
    low = float(reward.values.min())
    first, later = float(reward.values[0]) - low, float(reward.values[1:].max()) - low
    noise = float(spread.values[0]) / np.sqrt(len(view.log) / len(view.log.steps))
    return first > limit.errors * noise and later <= limit.once * first


@check(
    title="From one step to the next the model is the untrained one",
    looks_at="mean reward and entropy by step",
    rule="fail where within {steps:g} steps {fail:.0%} of all that was gained is lost ({errors:g} standard errors) and "
    "the entropy goes half of the way back or more: an optimiser cannot do that, so the weights were replaced",
    remedy="go back to a checkpoint before it. Look for a model file that was written over while the run had it mapped "
    "into memory, weights loaded anew by another process (a sampler's), or a resume that read the base model",
    steps=5,
    fail=0.8,
    errors=5,
)
def sudden_reset(view: View, limit: Any) -> Verdict:
    reward, entropy = view.series("reward").trend(), view.series("entropy").trend()
    width = int(limit.steps)
    if len(reward) != len(entropy):
        raise Missing("reward and entropy are not logged at the same steps")
    means, levels = (np.convolve(series.values, np.ones(width) / width, "valid") for series in (reward, entropy))
    before, after = slice(0, -2 * width), slice(2 * width, None)  # windows with one window between them
    noise = float(np.std(np.diff(reward.values)) / np.sqrt(width))
    gained, lost = means[before] - means[0], means[before] - means[after]
    fell, back = levels[0] - levels[before], levels[after] - levels[before]
    jump = (
        (gained > 0) & (lost >= limit.fail * gained) & (lost >= limit.errors * noise) & (fell > 0) & (back >= fell / 2)
    )
    if not jump.any():
        return Verdict("ok", "no step undoes what was learned")
    at = int(np.flatnonzero(jump)[0])
    text = (
        f"mean reward {means[at]:.3f}, {2 * width} steps later {means[at + 2 * width]:.3f} ({means[0]:.3f} at first); "
    )
    text += f"entropy {levels[at]:.3f}, then {levels[at + 2 * width]:.3f} ({levels[0]:.3f} at first)"
    return Verdict("fail", text, [int(reward.steps[at + width - 1]), int(reward.steps[at + 2 * width])])


@check(
    title="Rewards that never reach correctness",
    looks_at="reward, its terms (reward_part/…) and correctness by step",
    rule="fail where the reward rose by {rose:g} standard errors and correctness by less than {flat:g} over the "
    "run, warn where that is so of its second half, or where the reward varies and no response was ever correct: a "
    "format or length term is being learned, not the task",
    remedy="lower weight or a cap for format and length terms (rewards: weight), or pay them only for correct answers; "
    "check that the verifier can read the answers at all (docs/verification.md)",
    rose=3,
    flat=2,
)
def format_only(view: View, limit: Any) -> Verdict:
    right, terms = view.correctness(), _other_terms(view)
    for name, start in (("run", 0), ("second half", len(right) // 2)):
        gain, errors = right.trend().gain(start)
        others = [(term.name, *term.gain(start)) for term in terms if len(term) == len(right)]
        learned = [item for item in others if item[2] >= limit.rose]
        if learned and errors < limit.flat and not view.learned:
            term, rise, _ = max(learned, key=lambda item: item[1])
            text = f"over the {name} {term} rose by {rise:.3f}, correctness by {gain:.3f} ({_errors(errors)})"
            return Verdict("fail" if name == "run" else "warn", text, right.recent_steps)
    text = f"correctness {right.early:.1%} at first, {right.recent:.1%} recently"
    spread = view.known("reward_std")
    if right.values.max() == 0 and spread is not None and spread.whole > 0:
        return Verdict("warn", "no response was ever correct, though rewards differ", right.recent_steps)
    return Verdict("ok", text)


def _other_terms(view: View) -> list[Series]:
    names = [name for name in view.terms if not means_correctness(name)]
    found = [view.known(name) for name in [*names, "reward"]]
    return [series for series in found if series is not None]


@check(
    title="Rewards stop differing",
    looks_at="standard deviation of the rewards by step",
    rule="warn where the recent spread is {warn:.0%} of the first or less, fail at {fail:.0%}; not where nearly "
    "all responses are right: without differences there is nothing to learn from",
    remedy="harder or easier prompts, a finer reward, a higher temperature; look at a few groups with "
    "`upside explain`; where they never differed: does the model ever write what the reward function pays for?",
    warn=0.2,
    fail=0.02,
)
def reward_spread(view: View, limit: Any) -> Verdict:
    spread = view.series("reward_std")
    if spread.whole > 0 or len(spread) < spread.width:
        spread = spread.trend()
    text = f"standard deviation {spread.early:.3f} at first, {spread.recent:.3f} recently"
    if spread.whole == 0:
        text = "the rewards of every step are all equal"
    if view.learned:
        return Verdict("ok", f"{text}; nearly all responses are right")
    level = graded_below(spread.recent / max(spread.early, 1e-12), limit)
    return Verdict(level, text, spread.recent_steps if level != "ok" else ())


@check(
    title="Judgements that failed",
    looks_at="outcomes of the verifier (timeout, error)",
    rule="warn from {warn:.0%} of the recent responses, fail from {fail:.0%}: each is a response without a reward, "
    "and long or odd ones are hit most, which bends the data",
    remedy="a longer limit for the verifier (task_options: verifier_options: {timeout: …}), more workers, shorter "
    "responses (max_new_tokens); summary.json holds the first as `unjudged`",
    warn=0.01,
    fail=0.1,
)
def verifier_timeouts(view: View, limit: Any) -> Verdict:
    late, broken = view.series("verify/timeout"), view.series("verify/error")
    share = late.recent + broken.recent
    return Verdict(graded(share, limit), f"{late.recent:.1%} timeouts and {broken.recent:.1%} errors among the recent "
                   "responses", late.recent_steps if share else ())  # fmt: skip


@check(
    title="Answers that cannot be read",
    looks_at="outcomes of the verifier (unparsed)",
    rule="warn from {warn:.0%} of the recent responses, fail from {fail:.0%}: these count as wrong whatever they "
    "say, and the policy learns the format first",
    remedy="a prompt that asks for the answer in the form that the verifier reads (template, system prompt, few-shot "
    "examples), an answer form that the model has (docs/verification.md), more room (max_new_tokens)",
    warn=0.2,
    fail=0.7,
)
def unparsed_answers(view: View, limit: Any) -> Verdict:
    unparsed = view.series("verify/unparsed")
    return Verdict(graded(unparsed.recent, limit), f"{unparsed.recent:.0%} of the recent responses hold no readable "
                   f"answer ({unparsed.early:.0%} at first)", unparsed.recent_steps)  # fmt: skip


@check(
    title="Responses without a reward",
    looks_at="missing rewards",
    rule="warn from {warn:.0%} of the responses, fail from {fail:.0%}: they train nothing, and as 0 instead of "
    "missing they would teach that trying is bad",
    remedy="see what could not be scored (outcome, `unjudged` in summary.json); mend the reward function or drop the "
    "prompts that it cannot score",
    warn=0.01,
    fail=0.2,
)
def invalid_rewards(view: View, limit: Any) -> Verdict:
    invalid = view.series("invalid_share")
    return Verdict(graded(invalid.recent, limit), f"{invalid.recent:.1%} of the recent responses have no reward, "
                   f"{invalid.whole:.1%} of all", invalid.recent_steps if invalid.recent else ())  # fmt: skip


@check(
    title="Rewards outside their usual range",
    looks_at="rewards",
    rule="warn where a reward lies more than {times:g} times the distance between the 1st and the 99th percentile "
    "away from them: one such response sets its group's mean and scale alone",
    remedy="clip or bound the reward function; look at the response that earned it (`upside explain --step`)",
    times=10,
)
def reward_outliers(view: View, limit: Any) -> Verdict:
    view.rows()
    reward = view.log.numbers("reward")
    known = reward[~np.isnan(reward)]
    if len(known) < 100:
        raise Missing(f"{len(known)} rewards; outliers are looked for among 100 or more")
    low, high = np.quantile(known, [0.01, 0.99])
    reach = limit.times * max(high - low, 1e-12)
    odd = (reward > high + reach) | (reward < low - reach)
    if high == low:
        return Verdict("ok", f"nearly all rewards are {high:g}")
    steps = np.unique(view.log.codes("step")[odd])[:10]
    return Verdict(
        "warn" if odd.any() else "ok",
        f"{odd.sum()} of {len(known)} rewards lie far outside {low:g} to {high:g}",
        list(steps),
    )


def _errors(errors: float) -> str:
    return f"{errors:+.1f} standard errors" if np.isfinite(errors) else "without any noise"
