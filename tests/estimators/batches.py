"""Batches for the estimator tests: random ones with everything in them, and literal ones."""

import random

import upside

CHAINS = [
    "canon:mu=0.3 > reference_margin > adora_weight",
    "grpo > whiten",
    "rloo > batch_std > adora_weight:mode=amplify,criteria=or",
    "group_mean > reference_margin:pairing=group_mean > gpg_rescale:idle=zero_advantages",
    "opo > whiten:level=token > mask_truncated",
    "canon:metric=difficulty,mu=linear(start=1,end=0.2),alpha=0.9,beta=0.05",
    "canon:metric=length,mu=cosine_first_inter,odd=low",
    "adora:normalize_mean_weight=true,truncation_length=12,no_failure=tas",
    "gpg:idle=zero_advantages",
    "batch_mean > whiten > reference_margin:low=none,high=none",
]
SPECS = [*upside.presets(), *CHAINS]
DETERMINISTIC = [spec for spec in SPECS if spec != "canon_random"]  # its shuffle depends on the row number

REWARDS = {
    "binary": [0.0, 1.0],
    "graded": [-3.0, -1.0, -0.5, 3.0],
    "tenths": [0.1, 0.2, 0.3, 0.7, 1.05],
    "large": [1e6 + 0.1, 1e6 + 0.2, 1e6 + 0.7],
}


def fields(seed, sizes, rewards="binary", invalid=0.0):
    """Every field of a Rollouts for groups of these sizes, rows in mixed order. Lengths and metrics often tie."""
    rng = random.Random(seed)
    groups = [g for g, size in enumerate(sizes) for _ in range(size)]
    rng.shuffle(groups)
    n = len(groups)
    r = [rng.choice(REWARDS[rewards]) for _ in range(n)]
    valid = [rng.random() >= invalid for _ in range(n)]
    return {
        "rewards": [x if v or rng.random() < 0.5 else None for x, v in zip(r, valid, strict=True)],
        "groups": groups,
        "lengths": [rng.randrange(1, 16) for _ in range(n)],
        "entropy": [rng.randrange(12) / 8 for _ in range(n)],
        "correct": [x >= 0.5 for x in r],
        "truncated": [rng.random() < 0.2 for _ in range(n)],
        "valid": valid,
        "reference_rewards": [rng.choice([*REWARDS[rewards], None]) for _ in range(n)],
        "metrics": {
            "baseline": [rng.choice(REWARDS[rewards]) for _ in range(n)],
            "difficulty": [rng.randrange(6) for _ in range(n)],
        },
        "step": rng.randrange(1, 160),
        "total_steps": 160,
    }


def take(given, rows):
    """The same fields at these row numbers."""
    row_wise = lambda value: [value[i] for i in rows]  # noqa: E731
    picked = {k: row_wise(v) if isinstance(v, list) else v for k, v in given.items()}
    return picked | {"metrics": {k: row_wise(v) for k, v in given["metrics"].items()}}


def values(estimator, given=None, **more):
    """The advantages as a list of floats."""
    batch = upside.Rollouts(**{**(given or {}), **more})
    return upside.estimator(estimator)(batch).values.tolist()


def close(got, want, tolerance=2e-6):
    """Whether two lists of numbers agree, relative to their size where that is above 1."""
    assert len(got) == len(want)
    return all(abs(a - b) <= tolerance * max(1.0, abs(b)) for a, b in zip(got, want, strict=True))
