"""Every formula once more, as plain loops over one group at a time, against the segment arithmetic of the package."""

import math

import pytest
from batches import close, fields, values
from hypothesis import given, settings
from hypothesis import strategies as st

import upside

pytestmark = pytest.mark.filterwarnings("ignore:.*(single response|has a reward)")


def mean(xs):
    return math.fsum(xs) / len(xs)


def std(xs, ddof=1):
    return math.sqrt(math.fsum((x - mean(xs)) ** 2 for x in xs) / (len(xs) - ddof))


class Row:
    """One valid response."""

    def __init__(self, batch, i):
        self.number = i
        self.r = batch["rewards"][i]
        self.length, self.entropy = batch["lengths"][i], batch["entropy"][i]
        self.correct, self.truncated = batch["correct"][i], batch["truncated"][i]
        self.ref = batch["reference_rewards"][i]
        self.baseline = batch["metrics"]["baseline"][i]


def group_mean(rows):
    return [row.r - mean([x.r for x in rows]) for row in rows]


def grpo(rows, eps=1e-4, ddof=1):
    if len(rows) == 1:
        return [0.0]
    return [a / (std([row.r for row in rows], ddof) + eps) for a in group_mean(rows)]


def rloo(rows):
    total = math.fsum(row.r for row in rows)
    return [row.r - (total - row.r) / (len(rows) - 1) if len(rows) > 1 else 0.0 for row in rows]


def opo(rows):
    base = math.fsum(row.length * row.r for row in rows) / math.fsum(row.length for row in rows)
    return [row.r - base if len(rows) > 1 else 0.0 for row in rows]


def dapo(rows):
    return [0.0 if row.truncated else a for row, a in zip(rows, grpo(rows), strict=True)]


def aapo(rows, low=-0.2, high=0.28):
    margins = [0.0 if row.ref is None else min(max(row.r - row.ref, low), high) for row in rows]
    return [a + m for a, m in zip(grpo(rows), margins, strict=True)]


def adora(rows, amplify=False):
    success = [row.length for row in rows if row.correct]
    failure = [row.length for row in rows if not row.correct]
    longer = max(success) > mean(failure) if success and failure else (not success and not amplify)
    weights = (2.0, 1.0) if amplify else (1.0, 0.1)
    hard = 2 * len(success) <= len(rows) or not amplify
    weight = weights[0] if longer and hard else weights[1]
    return [weight * a for a in grpo(rows, eps=1e-6)]


def canon(rows, mu, key, alpha=1.0):
    """With the cut halving a tied block: average over every order in which ties could have been broken."""
    if len(rows) == 1:
        return [0.0]
    cut, ranked = len(rows) / 2, sorted(key(row) for row in rows)

    def high_share(row):
        first, width = ranked.index(key(row)), ranked.count(key(row))
        return 1 - min(max((cut - first) / width, 0.0), 1.0)

    h = [high_share(row) for row in rows]
    m_high = math.fsum(s * row.r for s, row in zip(h, rows, strict=True)) / cut
    m_low = math.fsum((1 - s) * row.r for s, row in zip(h, rows, strict=True)) / cut
    out = []
    for s, row in zip(h, rows, strict=True):
        as_high = mu * (alpha * row.r - m_low) + (1 - mu) * (row.r - m_high)
        as_low = mu * (row.r - alpha * m_high) + (1 - mu) * (row.r - m_low)
        out.append(s * as_high + (1 - s) * as_low)
    return out


def per_group(formula):
    def batchwise(rows_of, batch):
        return [(row.number, a) for rows in rows_of for row, a in zip(rows, formula(rows), strict=True)]

    return batchwise


def whitened(formula, weight=lambda row: 1, eps=1e-8):
    def batchwise(rows_of, batch):
        pairs = [(row, a) for rows in rows_of for row, a in zip(rows, formula(rows), strict=True)]
        tokens = [a for row, a in pairs for _ in range(weight(row))]
        if len(tokens) < 2 or max(tokens) == min(tokens):
            return [(row.number, 0.0) for row, _ in pairs]
        return [(row.number, (a - mean(tokens)) / math.sqrt(std(tokens) ** 2 + eps)) for row, a in pairs]

    return batchwise


def lite(rows_of, batch):
    rewards = [row.r for rows in rows_of for row in rows]
    scale = std(rewards) + 1e-4 if len(rewards) > 1 else 1.0
    return [(row.number, a / scale) for rows in rows_of for row, a in zip(rows, group_mean(rows), strict=True)]


def gpg(rows_of, batch):
    total = sum(map(len, rows_of))
    idle = sum(len(rows) for rows in rows_of if len({row.r for row in rows}) == 1)
    alpha = total / (total - idle) if total > idle else 1.0
    return [(row.number, alpha * a) for rows in rows_of for row, a in zip(rows, group_mean(rows), strict=True)]


def batch_baseline(rows_of, batch):
    rows = [row for rows in rows_of for row in rows]
    return [(row.number, row.r - mean([x.r for x in rows])) for row in rows]


def canon_dynamic(rows_of, batch):
    mu = 1 - mean([float(row.correct) for rows in rows_of for row in rows])
    return per_group(lambda rows: canon(rows, mu, lambda row: row.entropy))(rows_of, batch)


def by_entropy(mu):
    return per_group(lambda rows: canon(rows, mu, lambda row: row.entropy))


FORMULAS = {
    "grpo": per_group(grpo),
    "grpo:ddof=0,eps=0.5": per_group(lambda rows: grpo(rows, 0.5, 0)),
    "dr_grpo": per_group(group_mean),
    "rloo": per_group(rloo),
    "opo": per_group(opo),
    "dapo": per_group(dapo),
    "reinforce": per_group(lambda rows: [row.r for row in rows]),
    "remax": per_group(lambda rows: [row.r - row.baseline for row in rows]),
    "batch_baseline": batch_baseline,
    "reinforce_pp": whitened(lambda rows: [row.r for row in rows]),
    "reinforce_pp:whitening=token": whitened(lambda rows: [row.r for row in rows], lambda row: row.length),
    "reinforce_pp_baseline": whitened(group_mean),
    "reinforce_pp_baseline:whitening=token": whitened(group_mean, lambda row: row.length),
    "lite": lite,
    "gpg": gpg,
    "aapo": per_group(aapo),
    "aapo:low=-1,high=0.1": per_group(lambda rows: aapo(rows, -1, 0.1)),
    "adora": per_group(adora),
    "adora_amplify": per_group(lambda rows: adora(rows, amplify=True)),
    "canon": by_entropy(1.0),
    "canon:mu=0.3": by_entropy(0.3),
    "canon_inter": by_entropy(1.0),
    "canon_intra": by_entropy(0.0),
    "canon_dynamic": canon_dynamic,
    "canon_eff": per_group(lambda rows: canon(rows, 0.5, lambda row: row.length, 0.96)),
}


def test_every_deterministic_preset_has_a_loop():
    assert {spec.partition(":")[0] for spec in FORMULAS} == set(upside.presets()) - {"canon_random"}


@pytest.mark.parametrize("spec", FORMULAS)
@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(
    seed=st.integers(0, 10**6),
    sizes=st.lists(st.integers(1, 9), max_size=5),
    style=st.sampled_from(["binary", "graded", "tenths"]),
    invalid=st.sampled_from([0.0, 0.2]),
)
def test_formula(spec, seed, sizes, style, invalid):
    batch = fields(seed, [*sizes, 4], style, invalid)
    valid = [v and r is not None for v, r in zip(batch["valid"], batch["rewards"], strict=True)]
    rows = [Row(batch, i) for i, v in enumerate(valid) if v]
    rows_of = [[row for row in rows if batch["groups"][row.number] == g] for g in range(len(sizes) + 1)]
    expected = [0.0] * len(valid)
    for number, a in FORMULAS[spec]([rows for rows in rows_of if rows], batch):
        expected[number] = a
    assert close(values(spec, batch), expected, 5e-6)
