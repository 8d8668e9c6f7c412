"""Checks of the groups: whether the responses to a prompt have something to compare, and stand in the right group."""

from __future__ import annotations

from typing import Any

import numpy as np

from upside.analysis.doctor.checks import Missing, Verdict, check, graded, worse
from upside.analysis.doctor.view import View


@check(
    title="Prompts too easy",
    looks_at="rewards and correctness by group",
    rule="warn from {warn:.0%} of all groups, fail from {fail:.0%}, or warn from {late:.0%} of the recent ones: "
    "a run that goes from 25% to 90% has about half of its groups all correct on the way, so more than that means "
    "that the prompts were easy to begin with, or are used up",
    remedy="harder prompts (task, task_options; drop what the base model always solves), or larger groups (group_size; "
    "TRL num_generations, verl actor_rollout_ref.rollout.n); an all-correct group still teaches with canon:alpha=0.96 "
    "or aapo",
    warn=0.65,
    fail=0.9,
    late=0.95,
)
def too_easy_groups(view: View, limit: Any) -> Verdict:
    right, dead = view.series("all_correct_share"), view.series("constant_group_share")
    share = min(right.whole, dead.whole)
    recent = min(right.recent, dead.recent)
    level = worse(graded(share, limit), "warn" if recent >= limit.late else "ok")
    return Verdict(level, f"{share:.0%} of all groups are all correct and of one reward, {recent:.0%} of the recent "
                   "ones: they teach nothing", right.recent_steps)  # fmt: skip


@check(
    title="Prompts too hard",
    looks_at="rewards and correctness by group",
    rule="warn from {warn:.0%} of the recent groups, fail from {fail:.0%}: with G responses an all-wrong group has "
    "chance (1-p)^G, 50% at p = 8% and 80% at p = 3% for G = 8",
    remedy="easier prompts first (task_options; mix in others), larger groups (group_size), a warm start by supervised "
    "fine-tuning; `upside plan` says what a pass rate and a group size give; aapo keeps a signal where the reference "
    "is sometimes right",
    warn=0.5,
    fail=0.8,
)
def too_hard_groups(view: View, limit: Any) -> Verdict:
    wrong, dead = view.series("all_wrong_share"), view.series("constant_group_share")
    spread, right = view.known("reward_std"), view.known("accuracy")
    if spread is not None and len(spread) and spread.whole == 0 and (right is None or not len(right)):
        raise Missing("all rewards are equal (`reward_spread`) and the log says nothing of correctness")
    recent = min(wrong.recent, dead.recent)
    return Verdict(graded(recent, limit), f"{recent:.0%} of the recent groups are all wrong and of one reward "
                   f"({min(wrong.early, dead.early):.0%} at first)", wrong.recent_steps)  # fmt: skip


@check(
    title="Groups without a signal, neither all right nor all wrong",
    looks_at="rewards by group; where only the share of constant groups is logged, that share",
    rule="warn from {warn:.0%} of the recent groups, fail from {fail:.0%}: so much of the sampling buys nothing; "
    "not counted where nearly all responses are right",
    remedy="a reward that separates the responses (rewards; look at one group with `upside explain`), larger groups "
    "(group_size), prompts of middling difficulty",
    warn=0.5,
    fail=0.8,
)
def dead_groups(view: View, limit: Any) -> Verdict:
    dead = view.series("constant_group_share")
    right, wrong = view.known("all_correct_share"), view.known("all_wrong_share")
    if right is None or wrong is None:
        if view.learned:
            return Verdict("ok", f"{dead.recent:.0%} of the recent groups have one reward; nearly all are right")
        text = f"{dead.recent:.0%} of the recent groups have one reward ({dead.early:.0%} at first); the log does not "
        return Verdict(graded(dead.recent, limit), text + "say whether they are all right or all wrong",
                       dead.recent_steps)  # fmt: skip
    other = max(0.0, dead.recent - right.recent - wrong.recent)
    return Verdict(graded(other, limit), f"{other:.0%} of the recent groups have one reward and are neither all right "
                   "nor all wrong", dead.recent_steps)  # fmt: skip


@check(
    title="Groups of one",
    looks_at="group ids, prompts; else the logged number of singleton groups",
    rule="warn from {warn:.0%} of the groups, fail from {fail:.0%}: a response alone has nothing to be compared "
    "with; where they are the rule, every response got an id of its own",
    remedy="one group id for all responses to a prompt (verl: uid per prompt, not per response; a table: --map "
    "group=COLUMN), and group_size of at least 2",
    warn=0.01,
    fail=0.5,
)
def singleton_groups(view: View, limit: Any) -> Verdict:
    if not len(view.log):
        singles, groups = view.series("singleton_groups"), view.series("groups")
        share = singles.values.sum() / max(groups.values.sum(), 1.0)
        return Verdict(graded(share, limit), f"{share:.1%} of the groups hold one response")
    alone = view.groups.size == 1
    share, text = float(alone.mean()), f"{alone.sum()} of {len(alone)} groups hold one response"
    if alone.any() and view.log.has("prompt_text"):
        rows = view.groups.order[view.groups.starts][alone]
        pairs = np.stack([view.log.codes("step")[rows], view.log.codes("prompt")[rows]], axis=1)
        repeats = len(pairs) - len(np.unique(pairs, axis=0))
        if repeats:
            text += f"; {repeats} of them have the prompt of another one of the same step: the ids are wrong"
    return Verdict(graded(share, limit), text, _some(view.groups.step[alone]))


@check(
    title="Several prompts in one group",
    looks_at="group ids and prompts",
    rule="fail from {fail:.1%} of the groups: responses to different prompts are compared with each other",
    remedy="group ids that follow the prompt; look at what reorders the batch between sampling and scoring (shuffling, "
    "interleaving, a gather over processes)",
    fail=0.001,
)
def mixed_groups(view: View, limit: Any) -> Verdict:
    view.rows("prompt_text")
    mixed = ~view.groups.all_same(view.log.codes("prompt"))
    return Verdict(graded(float(mixed.mean()), limit), f"{mixed.sum()} of {len(mixed)} groups hold more than one "
                   "prompt", _some(view.groups.step[mixed]))  # fmt: skip


@check(
    title="A prompt twice in a step, merged into one group",
    looks_at="group sizes",
    rule="warn from {warn:.0%} of the groups at a multiple of the usual size: the same prompt drawn twice became "
    "one group, so that two visits share a baseline",
    remedy="an id per occurrence instead of the prompt's text or tokens as id",
    warn=0.005,
)
def merged_groups(view: View, limit: Any) -> Verdict:
    size, usual = view.groups.size, view.groups.usual
    merged = (size > usual) & (size % usual == 0) & (usual > 1)
    return Verdict(graded(float(merged.mean()), limit), f"{merged.sum()} of {len(size)} groups have a multiple of the "
                   f"usual {usual} responses", _some(view.groups.step[merged]))  # fmt: skip


@check(
    title="A prompt's responses split over several groups",
    looks_at="group ids and prompts, the recipe's group_size",
    rule="warn from {warn:.0%} of a step's prompts, fail from {fail:.0%}, if their groups are smaller than "
    "group_size (where it is unknown: always): each part is compared with itself alone",
    remedy="one id per prompt; on several processes, gather rewards and ids before the advantage is computed",
    warn=0.05,
    fail=0.5,
)
def split_groups(view: View, limit: Any) -> Verdict:
    view.rows("prompt_text")
    groups = view.groups
    first = groups.order[groups.starts]
    pairs, index, parts = np.unique(
        np.stack([groups.step, view.log.codes("prompt")[first]], axis=1), axis=0, return_inverse=True,
        return_counts=True,
    )  # fmt: skip
    index = index.reshape(-1)
    asked = view.log.recipe.get("group_size")
    if asked is None and not (groups.size > 1).all():
        asked = np.inf
    largest = np.zeros(len(pairs))
    np.maximum.at(largest, index, groups.size)
    small = largest < asked if asked is not None else parts > 1
    split = (parts > 1) & small
    level = graded(float(split.mean()), limit)
    if asked is None and level == "fail":
        level = "warn"  # a step may hold every prompt twice on purpose
    return Verdict(level, f"{split.sum()} of {len(pairs)} prompts have their responses of a step in several groups",
                   _some(pairs[split][:, 0]))  # fmt: skip


@check(
    title="Groups of unequal size",
    looks_at="group sizes",
    rule="warn from {warn:.0%} of the groups: their advantages have other scales and noise, and a lost response "
    "may be one that a verifier or a filter dropped",
    remedy="find what drops responses (timeouts, length filters, partial rollouts); keep them as invalid rows instead",
    warn=0.05,
)
def uneven_groups(view: View, limit: Any) -> Verdict:
    size, usual = view.groups.size, view.groups.usual
    other = size != usual
    return Verdict(graded(float(other.mean()), limit), f"{other.sum()} of {len(size)} groups have another size than "
                   f"the usual {usual}", _some(view.groups.step[other]))  # fmt: skip


@check(
    title="The same response over and over within a group",
    looks_at="response texts by group",
    rule="warn from {warn:.0%} of the recent groups that are not all correct, fail from {fail:.0%}; of all recent "
    "groups warn from {all:.0%}: identical responses get identical advantages, which is exploration spent on nothing",
    remedy="temperature (1.0 as trained), top_p and top_k off, a seed per response rather than one for all (vLLM: "
    "seed unset in the sampling parameters); where the policy itself is that narrow: entropy_bonus, a lower lr",
    warn=0.3,
    fail=0.7,
    all=0.9,
)
def duplicate_responses(view: View, limit: Any) -> Verdict:
    same = view.groups.all_same(view.response_codes) & (view.groups.size > 1)
    recent = view.recent_groups()
    open_ = recent & ~view.groups.right
    everywhere = float(same[recent].mean())
    share = float(same[open_].mean()) if open_.sum() >= 5 else 0.0
    level = worse(graded(share, limit), "warn" if everywhere >= limit.all else "ok")
    return Verdict(level, f"{everywhere:.0%} of the recent groups are one response repeated; {share:.0%} of the "
                   f"{open_.sum()} that are not all correct", _some(view.groups.step[recent & same]))  # fmt: skip


@check(
    title="One response for many prompts",
    looks_at="response texts",
    rule="warn from {warn:.0%} of the recent responses, fail from {fail:.0%}, over four prompts or more: the "
    "policy answers without reading the prompt",
    remedy="a reward that such an answer cannot earn (format terms, short-answer guesses), prompts whose answers "
    "differ; go back to a checkpoint before it",
    warn=0.25,
    fail=0.6,
)
def same_response(view: View, limit: Any) -> Verdict:
    view.rows("response", "prompt_text")
    rows = view.recent
    codes, counts = np.unique(view.response_codes[rows], return_counts=True)
    commonest = rows[view.response_codes[rows] == codes[counts.argmax()]]
    share = len(commonest) / len(rows)
    prompts = len(np.unique(view.log.codes("prompt")[commonest]))
    if len(np.unique(view.log.codes("prompt")[rows])) < 4:
        raise Missing("fewer than four prompts in the recent steps")
    level = graded(share, limit) if prompts >= 4 else "ok"
    return Verdict(level, f"the commonest response is {share:.0%} of the recent ones, for {prompts} prompts")


def _some(steps: np.ndarray, most: int = 10) -> list[int]:
    """The first few of the steps."""
    return [int(step) for step in np.unique(steps)[:most]]
