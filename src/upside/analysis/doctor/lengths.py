"""Checks of the responses' lengths and ends."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from upside.analysis.doctor.checks import Missing, Verdict, check, graded
from upside.analysis.doctor.view import View


@check(
    title="Responses cut off at the limit",
    looks_at="truncation, length and correctness by step",
    rule="warn from {warn:.0%} of the recent responses, fail from {fail:.0%}: a response that is cut off before "
    "its answer counts as wrong, which teaches brevity rather than reasoning",
    remedy="more room (max_new_tokens; TRL max_completion_length, verl data.max_response_length), mask_truncated=true "
    "or estimator=dapo, an overlong or cosine term (docs/rewards.md)",
    warn=0.1,
    fail=0.3,
)
def truncation(view: View, limit: Any) -> Verdict:
    cut = view.series("truncated_share")
    length = view.known("length")
    text = f"{cut.recent:.1%} of the recent responses are cut off ({cut.early:.1%} at first)"
    if length is not None and len(length):
        text += f"; mean length {length.early:.0f} at first, {length.recent:.0f} recently"
    level = graded(cut.recent, limit)
    if level != "ok" and len(view.log) and view.log.has("truncated"):
        right = view.success[view.recent][view.log.numbers("truncated")[view.recent] == 1]
        text += f"; {np.nanmean(right):.0%} of those cut off are right" if (~np.isnan(right)).any() else ""
    return Verdict(level, text, cut.recent_steps if level != "ok" else ())


@check(
    title="Responses grow without getting better",
    looks_at="mean length by step, with correctness (else the reward)",
    rule="warn where the recent mean is {warn:g} times the first, fail from {fail:g} times, if the gain meanwhile "
    "is below {errors:g} standard errors",
    remedy="a loss that does not favour length (loss=dapo or dr_grpo), a length term or canon_eff, a bound on tokens "
    "(max_new_tokens); look for loops (`repetition`)",
    warn=1.7,
    fail=4,
    errors=2,
)
def length_runaway(view: View, limit: Any) -> Verdict:
    length = view.series("length").trend()
    ratio = length.recent / max(length.early, 1e-9)
    text = f"mean length {length.early:.0f} at first, {length.recent:.0f} recently (x{ratio:.1f})"
    better = view.known("accuracy") or view.known("reward")
    if better is None or ratio < limit.warn:
        return Verdict("ok", text)
    gain, errors = better.gain()
    text += f"; {better.name} {gain:+.3f}"
    level = "ok" if errors >= limit.errors else graded(ratio, limit)
    return Verdict(level, text, length.recent_steps if level != "ok" else ())


@check(
    title="Responses shrink to nothing",
    looks_at="mean length by step, with correctness (else the reward)",
    rule="warn where the recent mean is {warn:.0%} of the first or less, fail where it is and nothing was gained: "
    "the policy guesses instead of reasoning",
    remedy="no length penalty on wrong answers, a format term that asks for reasoning, a lower lr; check that "
    "truncated responses are not the only ones punished",
    warn=0.35,
    errors=2,
)
def length_collapse(view: View, limit: Any) -> Verdict:
    length = view.series("length").trend()
    ratio = length.recent / max(length.early, 1e-9)
    text = f"mean length {length.early:.0f} at first, {length.recent:.0f} recently (x{ratio:.2f})"
    if ratio > limit.warn:
        return Verdict("ok", text)
    better = view.known("accuracy") or view.known("reward")
    gained = better is not None and better.gain()[1] >= limit.errors
    return Verdict("warn" if gained else "fail", text, length.recent_steps)


@check(
    title="Length pays where correctness is equal",
    looks_at="reward and length among responses of one group and equal correctness; with metrics alone, both by step",
    rule="warn from a correlation of {warn:g}, fail where the mean length has also grown {growth:g}-fold; with "
    "metrics alone warn where both rose together ({together:g} or more) and the length {growth:g}-fold: then the "
    "reward pays for tokens",
    remedy="take the length out of the reward, or pay it for correct answers alone and bounded (cosine, see "
    "docs/rewards.md)",
    warn=0.5,
    growth=1.5,
    together=0.9,
)
def length_reward(view: View, limit: Any) -> Verdict:
    length = view.series("length")
    growth = length.recent / max(length.early, 1e-9)
    if not len(view.log):
        return _rose_together(view, growth, limit)
    view.rows("length")
    rows = view.recent
    reward, size = view.log.numbers("reward")[rows], view.log.numbers("length")[rows]
    key = 3 * view.log.codes("group")[rows] + np.nan_to_num(view.success[rows], nan=2.0).astype(np.int64)
    known = ~np.isnan(reward) & ~np.isnan(size)
    reward, size = _centred(reward[known], key[known]), _centred(size[known], key[known])
    if reward.var() < 1e-12 or size.var() < 1e-12:
        return Verdict("ok", "among responses of a group with equal correctness the reward does not vary")
    found = float((reward * size).mean() / np.sqrt(reward.var() * size.var()))
    text = (
        f"correlation of reward and length {found:+.2f} at equal correctness; mean length x{growth:.1f} since the start"
    )
    if found < limit.warn:
        return Verdict("ok", text)
    return Verdict("fail" if growth >= limit.growth else "warn", text, length.recent_steps)


def _rose_together(view: View, growth: float, limit: Any) -> Verdict:
    length, reward = view.series("length").trend(), view.series("reward").trend()
    if len(length) != len(reward):
        raise Missing("length and reward are not logged at the same steps")
    half = len(length) // 2
    with np.errstate(invalid="ignore"):
        found = float(np.nan_to_num(np.corrcoef(length.values[half:], reward.values[half:])[0, 1]))
    text = (
        f"mean length x{growth:.1f} since the start, correlation with the mean reward {found:+.2f} over the second half"
    )
    both = growth >= limit.growth and found >= limit.together
    return Verdict("warn" if both else "ok", text, length.recent_steps if both else ())


def _centred(values: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Values minus the mean of those with the same key. (n,)"""
    _, index = np.unique(keys, return_inverse=True)
    return values - (np.bincount(index, values) / np.bincount(index))[index]


@check(
    title="Responses never end by themselves",
    looks_at="truncation in the first steps",
    rule="warn from {warn:.0%} of the first responses, fail from {fail:.0%}: a model that was asked properly ends "
    "most responses, so the end token is missing, masked or not the one that the sampler stops at",
    remedy="all of the model's end tokens (generation_config eos_token_id may be a list), pad token unlike the end "
    "token where the engine masks by it, the chat template of the model; a base model may need stop strings or more "
    "room (max_new_tokens)",
    warn=0.7,
    fail=0.95,
)
def missing_eos(view: View, limit: Any) -> Verdict:
    cut = view.series("truncated_share")
    return Verdict(graded(cut.early, limit), f"{cut.early:.0%} of the first responses reach the limit without an end",
                   [int(cut.steps[0]), int(cut.steps[min(cut.width, len(cut)) - 1])])  # fmt: skip


@check(
    title="All responses of a step have one length",
    looks_at="lengths",
    rule="warn from {warn:.0%} of the steps with 8 responses or more, fail from {fail:.0%}: padding is being "
    "counted, or the end token is filled in to the limit",
    remedy="count tokens up to and including the first end token, not the width of the padded batch; canon and adora "
    "on lengths have nothing to go by until then",
    warn=0.05,
    fail=0.5,
)
def equal_lengths(view: View, limit: Any) -> Verdict:
    view.rows("length")
    length = view.log.numbers("length")
    equal = {step: bool(np.ptp(length[rows]) == 0) for step, rows in view.log.by_step() if len(rows) >= 8}
    if not equal:
        raise Missing("no step of 8 responses or more")
    where = [step for step, same in equal.items() if same]
    return Verdict(graded(len(where) / len(equal), limit), f"in {len(where)} of {len(equal)} steps all responses have "
                   "the same length", where[:10])  # fmt: skip


@check(
    title="Empty responses",
    looks_at="lengths and texts",
    rule="warn from {warn:.0%} of the recent responses, fail from {fail:.0%}",
    remedy="look at the prompt's end (a template that already ends the turn), and at a reward that pays for silence",
    warn=0.01,
    fail=0.1,
)
def empty_responses(view: View, limit: Any) -> Verdict:
    view.rows()
    rows = view.recent
    if view.log.has("response"):
        empty = np.array([not (text or "").strip() for text in view.log.texts("response", rows)])
    else:
        view.rows("length")
        empty = view.log.numbers("length")[rows] <= 0
    return Verdict(graded(float(empty.mean()), limit), f"{empty.sum()} of the {len(rows)} recent responses are empty",
                   np.unique(view.log.codes("step")[rows[empty]])[:10].tolist())  # fmt: skip


@check(
    title="Responses repeat themselves",
    looks_at="texts of up to 512 recent responses of 200 characters or more; else a logged repetition rate",
    rule="warn from {warn:.0%} of them, fail from {fail:.0%}; a text repeats itself where it shrinks to a tenth "
    "when compressed (prose: about half)",
    remedy="a lower lr, temperature 1.0 without top_p or top_k, a bound on tokens; do not pay for length",
    warn=0.1,
    fail=0.4,
)
def repetition(view: View, limit: Any) -> Verdict:
    logged = view.known("repeated_share")
    if logged is not None:
        return Verdict(graded(logged.recent, limit), f"repetition rate {logged.early:.1%} at first, "
                       f"{logged.recent:.1%} recently", logged.recent_steps)  # fmt: skip
    view.rows("response")
    rows = view.recent[:: max(1, len(view.recent) // 512)]
    texts = [text.encode("utf-8", "replace")[:20000] for text in view.log.texts("response", rows) if text]
    long = [text for text in texts if len(text) >= 200]
    if not long:
        return Verdict("ok", "no recent response has 200 characters")
    loops = sum(len(zlib.compress(text, 1)) < 0.1 * len(text) + 20 for text in long)
    return Verdict(graded(loops / len(texts), limit), f"{loops} of {len(texts)} recent responses repeat themselves")
