"""What the figures say, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from upside.analysis.comparison.result import Comparison, Pair, Result

METHOD = (
    "Learning curves show the interquartile mean over the seeds (with fewer than four seeds that is the mean) and the "
    "band between the quartiles. The interval of an accuracy is a percentile bootstrap that draws seeds and problems "
    "anew within each estimator, after what “Deep Reinforcement Learning at the Edge of the Statistical Precipice” "
    "(Agarwal et al. 2021) recommends for few runs; so is the probability of improvement, P(a run of one is better "
    "than a run of the other), here with Newcombe's interval, which stays wide where all of a few runs win.",
    "With 3 to 5 seeds bootstrap intervals are too narrow, so they decide nothing here. Differences to the baseline "
    "are paired by seed and by problem; their interval is the widest of three t intervals, over the seeds, over seeds "
    "and problems (two-way random effects), and over single answers, and holds the true difference about as often as "
    "it says (simulated in docs/compare.md). The p values are corrected for the number of comparisons (Holm); the "
    "intervals are not. “Better” or “worse” means a corrected p below 0.05, everything else is called within noise.",
    "How many seeds it would take: a paired t test at 5% with a power of 80% (non-central t), if the true difference "
    "were the one seen and the seeds spread as these do. A few seeds say little about their own spread, so the range "
    "in parentheses gives the number at the ends of its 80% interval.",
)


def word(pair: Pair | None) -> str:
    """better, worse or within noise; baseline for no pair."""
    if pair is None:
        return "baseline"
    if pair.difference.p is None:
        return "one seed"
    if pair.difference.spread == 0 and pair.difference.value == 0:
        return "equal"
    if pair.within_noise:
        return "within noise"
    return "better" if pair.difference.value > 0 else "worse"


def sentence(pair: Pair, baseline: str) -> str:
    """The verdict on one estimator."""
    found = pair.difference
    size = f"{abs(found.value) * 100:.1f} points {'above' if found.value >= 0 else 'below'} {baseline}"
    kind = word(pair)
    if kind == "one seed":
        return f"{pair.name}: {size} in one run each. One seed cannot tell a difference from noise; run at least 3."
    if kind == "equal":
        return f"{pair.name}: the same as {baseline} in every answer."
    interval = f"95% interval {100 * (found.low or 0):+.1f} to {100 * (found.high or 0):+.1f}"
    text = f"{pair.name}: {size} ({interval}, Holm-corrected p {pair.adjusted:.2g}, {len(pair.seeds)} seeds): "
    if kind != "within noise":
        return f"{text}{kind.upper()}."
    text += "WITHIN NOISE."
    if found.low is not None and found.high is not None and found.low * found.high > 0:
        text += " (Its own interval leaves out 0, but not after correction for the number of comparisons.)"
    return f"{text} {_seeds(pair)}"


def _seeds(pair: Pair) -> str:
    told = "no difference" if pair.detectable is None else f"a difference from {100 * pair.detectable:.1f} points on"
    text = f"{len(pair.seeds)} seeds that spread like these tell {told}; one of the size seen takes"
    if pair.needed is None:
        return f"{text} more than 10,000 seeds."
    low, high = pair.needed_range
    return f"{text} about {_count(pair.needed)} seeds ({_count(low)} to {_count(high)})."


def _count(number: int | None) -> str:
    return "more than 10,000" if number is None else f"{number:,}"


def sentences(comparison: Comparison) -> list[str]:
    """Verdicts first, then what a reader must know about the runs."""
    settings = comparison.settings
    baseline = settings["baseline"]
    pairs = [pair for result in comparison.results if (pair := comparison.pair(result.name)) is not None]
    found = [sentence(pair, baseline) for pair in pairs]
    if pairs and all(word(pair) == "within noise" for pair in pairs):
        found.insert(0, f"No estimator differs from {baseline} by more than noise in this comparison.")
    if not pairs and len(comparison.results) > 1:
        found.append(f"No run of the baseline {baseline} has finished, so nothing is compared with it.")
    return [*found, *settings_of_their_own(comparison), *tokens(comparison), *gaps(comparison)]


def described(result: Result) -> str:
    """Its spec, and the settings that the baseline has otherwise."""
    return ", ".join([result.spec, *(f"{key}={value}" for key, value in result.own.items())])


def settings_of_their_own(comparison: Comparison) -> list[str]:
    """Who was trained with other settings than the baseline."""
    baseline = comparison.settings["baseline"]
    return [
        f"{result.name} was trained with other settings than {baseline}: {described(result)}. Not only the estimator "
        "may make its difference."
        for result in comparison.results
        if result.own
    ]


def tokens(comparison: Comparison) -> list[str]:
    """Who generated more, and what that does to the verdicts."""
    totals = {r.name: sum(r.tokens) / len(r.tokens) for r in comparison.results}
    least, most = min(totals, key=totals.__getitem__), max(totals, key=totals.__getitem__)
    found = []
    if totals[most] > 1.05 * totals[least]:
        found.append(
            f"{most} generated {totals[most] / totals[least]:.2f} times the tokens of {least} in the same steps."
        )
    for result in comparison.results:
        steps, equal = (comparison.pair(result.name, budget=kind) for kind in ("steps", "tokens"))
        if steps is not None and equal is not None and word(steps) != word(equal):
            change = f"{100 * equal.difference.value:+.1f} points"
            found.append(f"At equal tokens {result.name} is {change} to the baseline: {word(equal)}.")
    return found


def gaps(comparison: Comparison) -> list[str]:
    """What is missing or was not equal."""
    found = [f"NOT FAIR: {check.what}: {check.evidence}." for check in comparison.checks if not check.equal]
    if count := len(comparison.missing):
        missing = f"{count} runs are missing" if count > 1 else "1 run is missing"
        found.append(
            f"{missing} and left out: {', '.join(comparison.missing)}"
            f"{'; see the failures' if comparison.failed else ''}."
        )
    if left_out := comparison.settings["problems_left_out"]:
        found.append(f"{left_out} held-out problems are left out, since some run's answer to them could not be judged.")
    if estimated := [result.name for result in comparison.results if result.estimated]:
        found.append(
            f"The tokens of the reference responses of {', '.join(estimated)} were not logged by some runs; they are "
            "estimated from the initial model's mean length."
        )
    if comparison.settings["evaluations"] < 3:
        found.append("Accuracy at equal tokens needs evaluations during training; set eval.every.")
    return found
