"""Checks of what the held-out problems say beside the training reward."""

from __future__ import annotations

from typing import Any

import numpy as np

from upside.analysis.doctor.checks import Missing, Verdict, check, graded
from upside.analysis.doctor.view import View


@check(
    title="Training reward up, held-out accuracy down",
    looks_at="held_out.jsonl (paired by problem), else a logged evaluation; the mean reward",
    rule="of the last evaluation against the first and the best: warn where it is {errors:g} standard errors and "
    "{warn:.0%} (absolute) lower, fail where it is so against the first and {fail:.0%}: what the reward pays for is no "
    "longer what is wanted",
    remedy="stop at the best evaluation (eval.every, checkpoints/); mend the reward (what does the policy do that it "
    "pays for?), more training prompts, beta > 0 or a lower lr",
    errors=3,
    warn=0.02,
    fail=0.05,
)
def held_out_falls(view: View, limit: Any) -> Verdict:
    steps, share, error = _evaluations(view)
    if len(steps) < 2:
        raise Missing("one evaluation on held-out problems; two are needed (eval.every, or a finished run)")
    best = int(share.argmax())
    reward = view.known("reward")
    moved = f"; mean reward {reward.early:.3f} at first, {reward.recent:.3f} recently" if reward is not None else ""
    text = f"held-out accuracy {share[0]:.1%} at first, {share[best]:.1%} at best (step {steps[best]}), "
    text += f"{share[-1]:.1%} at step {steps[-1]}{moved}"

    def lost(since: int) -> float:
        drop = float(share[since] - share[-1])
        return drop if drop >= limit.errors * error(since) else 0.0

    if lost(0) >= limit.fail:
        return Verdict("fail", text, [steps[0], steps[-1]])
    falls = max(lost(0), lost(best)) >= limit.warn
    return Verdict("warn" if falls else "ok", text, [steps[best], steps[-1]] if falls else ())


def _evaluations(view: View) -> tuple[list[int], np.ndarray, Any]:
    """Steps, accuracy at each, and the standard error of the difference of an evaluation to the last."""
    lines = _mode(view, "sampled") or _mode(view, "greedy")
    if lines:
        shares = [np.asarray(line["right"]) / np.maximum(line["judged"], 1) for line in lines]

        def paired(since: int) -> float:
            difference = shares[-1] - shares[since]
            return float(difference.std() / np.sqrt(len(difference)))

        return [line["step"] for line in lines], np.array([share.mean() for share in shares]), paired
    logged = view.known("held_out_accuracy")
    if logged is None:
        raise Missing("no evaluation on held-out problems in the log")
    noise = float(np.diff(logged.values).std()) if len(logged) > 3 else 0.0  # of a difference of two evaluations
    return [int(step) for step in logged.steps], logged.values, lambda since: noise


def _mode(view: View, mode: str) -> list[dict[str, Any]]:
    lines = [line for line in view.log.held_out if line["mode"] == mode]
    return [line for line in lines if len(line["right"]) == len(lines[0]["right"])]


@check(
    title="Training improves, held-out problems do not",
    looks_at="training correctness by step; held-out accuracy at first and at the end",
    rule="warn where training gained {gain:.0%} (absolute) or more and held-out accuracy less than {warn:.0%} of that: "
    "what is learned does not carry over, or is not what the held-out problems ask",
    remedy="the same judge for both; more and more varied training prompts; look at what the reward pays for",
    gain=0.15,
    warn=0.25,
)
def held_out_flat(view: View, limit: Any) -> Verdict:
    steps, share, _ = _evaluations(view)
    if len(steps) < 2:
        raise Missing("one evaluation on held-out problems; two are needed (eval.every, or a finished run)")
    train = view.correctness().trend()
    gained, held_out = train.gain()[0], float(share[-1] - share[0])
    text = f"training {train.name} {gained:+.1%}, held-out accuracy {held_out:+.1%} from step {steps[0]} to {steps[-1]}"
    flat = gained >= limit.gain and held_out < limit.warn * gained
    return Verdict("warn" if flat else "ok", text, [steps[0], steps[-1]] if flat else ())


@check(
    title="Training and held-out prompts differ before any training",
    looks_at="sampled held-out accuracy at step 0, correctness of the first training steps",
    rule="warn where the two differ by {warn:.0%} (absolute) and {errors:g} standard errors, fail from {fail:.0%}: "
    "the same model on problems of the same kind must do about as well, so the prompt, its template, the length limit "
    "or the difficulty differ",
    remedy="one prompt renderer for both (template, system prompt, chat template), the same max_new_tokens "
    "(eval.max_new_tokens), a test split of the same kind; compare one prompt of each by eye",
    warn=0.15,
    fail=0.4,
    errors=4,
)
def train_eval_mismatch(view: View, limit: Any) -> Verdict:
    held_out = [line for line in _mode(view, "sampled") if line["step"] == 0]
    if not held_out:
        raise Missing("no sampled held-out responses of the untrained model (eval.samples)")
    view.rows("correct")
    first = np.unique(view.log.codes("step"))[:3]
    if first[0] > 1:
        raise Missing(f"the rollouts begin at step {first[0]}")
    rows = np.isin(view.log.codes("step"), first)
    train, groups = view.log.numbers("correct")[rows], view.log.codes("group")[rows]
    by_prompt = np.array([np.nanmean(train[groups == group]) for group in np.unique(groups)])
    right = np.asarray(held_out[0]["right"]) / np.maximum(held_out[0]["judged"], 1)
    difference = float(abs(by_prompt.mean() - right.mean()))
    error = float(np.sqrt(by_prompt.var() / len(by_prompt) + right.var() / len(right)))
    text = f"before training {right.mean():.1%} of held-out responses are right, {by_prompt.mean():.1%} of the first "
    text += "training responses"
    return Verdict(graded(difference, limit) if difference >= limit.errors * error else "ok", text, list(first))


@check(
    title="Training prompts are memorised",
    looks_at="recent training correctness, sampled held-out accuracy at the end, visits of a prompt",
    rule="warn where training is {warn:.0%} (absolute) above held-out at the end, and was not at the start",
    remedy="more training prompts (train_problems), fewer passes over them (steps, num_iterations), beta > 0",
    warn=0.2,
)
def memorising(view: View, limit: Any) -> Verdict:
    lines = _mode(view, "sampled")
    if len(lines) < 2:
        raise Missing("fewer than two sampled evaluations on held-out problems")
    accuracy = view.series("accuracy").trend()
    first, last = (float((np.asarray(line["right"]) / np.maximum(line["judged"], 1)).mean())
                   for line in (lines[0], lines[-1]))  # fmt: skip
    gap, before = accuracy.recent - last, float(accuracy.values[:3].mean()) - first
    text = f"training {accuracy.recent:.1%} against held-out {last:.1%} at the end"
    if len(view.log):
        visits = len(np.unique(view.log.codes("group"))) / len(np.unique(view.log.codes("prompt")))
        text += f"; each prompt was visited {visits:.1f} times"
    return Verdict(graded(min(gap, gap - before), limit), text, accuracy.recent_steps)
