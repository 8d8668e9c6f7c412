"""Presets: the estimators people name, as chains."""

from __future__ import annotations

from typing import Any, Literal

from upside.chains import Stage, stage
from upside.estimators.adora import Side
from upside.estimators.baselines import Singleton
from upside.registry import PRESETS, STAGES, Preset, register_preset

Chain = tuple[Stage, ...]


def _stages(*links: Stage | None) -> Chain:
    return tuple(link for link in links if link is not None)


def _name_stage(name: str) -> None:
    """Put a baseline that is an estimator by itself into the table, under its own name and options."""
    info = STAGES[name]
    PRESETS[name] = Preset(name, lambda **options: (stage(name, **options),), info.formula, info.source, info.build)


@register_preset("grpo", formula="A_i = (r_i - mean_G(r)) / (std_G(r) + eps)", source="DeepSeekMath (arXiv 2402.03300)")
def grpo(*, eps: float = 1e-4, ddof: int = 1, singleton: Singleton = "zero") -> Chain:
    """Group-relative advantages, std-scaled. eps is added to the std: 1e-4 as in TRL (verl: 1e-6, OpenRLHF: 1e-9)."""
    return _stages(stage("group_mean", singleton=singleton), stage("group_std", eps=eps, ddof=ddof))


@register_preset("dr_grpo", formula="A_i = r_i - mean_G(r)", source="Dr.GRPO, Liu et al. 2025 (arXiv 2503.20783)")
def dr_grpo(*, singleton: Singleton = "zero") -> Chain:
    """GRPO without the std; its other half is a loss that divides by a constant length (loss_type="dr_grpo")."""
    return _stages(stage("group_mean", singleton=singleton))


@register_preset(
    "rloo", formula="A_i = r_i - mean of the others' rewards", source="RLOO, Ahmadian et al. 2024 (arXiv 2402.14740)"
)
def rloo() -> Chain:
    """Leave-one-out baseline."""
    return _stages(stage("leave_one_out"))


@register_preset("reinforce", formula="A_i = r_i", source="Williams 1992")
def reinforce() -> Chain:
    """The raw reward."""
    return _stages(stage("none"))


@register_preset("batch_baseline", formula="A_i = r_i - mean_batch(r)", source="Williams 1992")
def batch_baseline() -> Chain:
    """The batch's mean reward as the baseline."""
    return _stages(stage("batch_mean"))


@register_preset("remax", formula="A_i = r_i - b, b the greedy response's reward", source="ReMax (arXiv 2310.10505)")
def remax() -> Chain:
    """A baseline given with the batch, as Rollouts(metrics={"baseline": …})."""
    return _stages(stage("given_baseline"))


@register_preset(
    "reinforce_pp",
    formula="A_i = (r_i - mean_batch(r)) / sqrt(var_batch(r) + eps)",
    source="REINFORCE++, Hu et al. 2025 (arXiv 2501.03262)",
)
def reinforce_pp(*, whitening: Literal["sequence", "token"] = "sequence", eps: float = 1e-8) -> Chain:
    """Batch-whitened rewards. whitening: each response counts once, or once per token (verl)."""
    return _stages(stage("none"), stage("whiten", level=whitening, eps=eps))


@register_preset(
    "reinforce_pp_baseline",
    formula="whiten_batch(r_i - mean_G(r))",
    source="REINFORCE++-baseline, Hu et al. 2025 (arXiv 2501.03262)",
)
def reinforce_pp_baseline(*, whitening: Literal["sequence", "token"] = "sequence", eps: float = 1e-8) -> Chain:
    """Group mean, then batch whitening. whitening="token" is verl's: long answers weigh more in mean and variance.

    Whitening shifts by the batch's mean, so with whitening="token" a group of equal rewards is not exactly 0.
    """
    return _stages(stage("group_mean"), stage("whiten", level=whitening, eps=eps))


@register_preset(
    "lite",
    formula="A_i = (r_i - mean_G(r)) / (std_batch(r) + eps)",
    source="Lite PPO, Liu et al. 2025 (arXiv 2508.08221)",
)
def lite(*, eps: float = 1e-4) -> Chain:
    """Group mean, batch std."""
    return _stages(stage("group_mean"), stage("batch_std", eps=eps))


@register_preset(
    "dapo",
    formula="grpo, 0 for truncated responses",
    source="DAPO, Yu et al. 2025 (arXiv 2503.14476)",
)
def dapo(*, eps: float = 1e-4, ddof: int = 1) -> Chain:
    """GRPO with overlong filtering, DAPO's piece that lives in the estimator.

    Its others live elsewhere: clip-higher and the token-level loss in the loss, soft overlong punishment in the
    reward, dynamic sampling in the sampler (a dropped group of equal rewards has advantage 0 here).
    """
    return _stages(stage("group_mean"), stage("group_std", eps=eps, ddof=ddof), stage("mask_truncated"))


@register_preset("gpg", formula="A_i = B/(B - M) (r_i - mean_G(r))", source="GPG equations 6-8 (arXiv 2504.02546)")
def gpg(*, idle: Literal["equal_rewards", "zero_advantages", "zero_rewards"] = "equal_rewards") -> Chain:
    """Group mean, rescaled by the share of groups that train. idle="zero_rewards" is verl's alpha."""
    return _stages(stage("group_mean"), stage("gpg_rescale", idle=idle))


@register_preset(
    "aapo",
    formula="A_i = (r_i - mean_G(r)) / (std_G(r) + eps) + clip(r_i - r_ref_i, low, high)",
    source="AAPO equation 5 (arXiv 2505.14264)",
)
def aapo(
    *,
    scale_by_std: bool = True,
    eps: float = 1e-4,
    ddof: int = 1,
    low: float | None = -0.2,
    high: float | None = 0.28,
    missing: Literal["zero_margin", "zero_reward", "error"] = "zero_margin",
    pairing: Literal["row", "group_mean"] = "row",
) -> Chain:
    """GRPO plus a clipped margin over the reference policy.

    scale_by_std=False: as the released 7B script at its first publication (`--scale_rewards False`).
    """
    std = stage("group_std", eps=eps, ddof=ddof) if scale_by_std else None
    margin = stage("reference_margin", low=low, high=high, missing=missing, pairing=pairing)
    return _stages(stage("group_mean"), std, margin)


@register_preset(
    "adora",
    formula="w_s (r_i - mean_G(r)) / (std_G(r) + eps);  w_s = 1 if longest success > mean failed length else 0.1",
    source="ADORA equations 4-7 (arXiv 2602.10019)",
)
def adora(
    *,
    eps: float | None = None,
    ddof: int = 1,
    mode: Literal["attenuate", "amplify"] = "attenuate",
    criteria: Literal["length", "difficulty", "and", "or"] | None = None,
    tau: float = 0.5,
    weight_tas: float | None = None,
    weight_tds: float | None = None,
    success_above: float | None = None,
    truncation_length: int | None = None,
    no_success: Side | None = None,
    no_failure: Side | None = None,
    normalize_mean_weight: bool = False,
    compat: Literal["released_llm", "released_vl"] | None = None,
) -> Chain:
    """GRPO, disadvantageous prompts attenuated (the vision-language setting and all released code).

    eps: added to the std; None is 1e-6, and 1e-9 under compat="released_vl".
    compat="released_llm" also lets a group of one keep its raw reward. Other options: see `adora_weight`.
    """
    weight: dict[str, Any] = {
        "mode": mode, "criteria": criteria, "tau": tau, "weight_tas": weight_tas, "weight_tds": weight_tds,
        "success_above": success_above, "truncation_length": truncation_length, "no_success": no_success,
        "no_failure": no_failure, "normalize_mean_weight": normalize_mean_weight, "compat": compat,
    }  # fmt: skip
    if eps is None:
        eps = 1e-9 if compat == "released_vl" else 1e-6
    singleton = "reward" if compat == "released_llm" else "zero"
    return _stages(
        stage("group_mean", singleton=singleton),
        stage("group_std", eps=eps, ddof=ddof),
        stage("adora_weight", **weight),
    )


@register_preset(
    "adora_amplify",
    formula="w_s (r_i - mean_G(r)) / (std_G(r) + eps);  w_s = 2 if longest success > mean failed length"
    " and success rate <= tau else 1",
    source="ADORA equations 4-6, 8 (arXiv 2602.10019)",
)
def adora_amplify(
    *,
    eps: float = 1e-6,
    criteria: Literal["length", "difficulty", "and", "or"] = "and",
    tau: float = 0.5,
    weight_tas: float = 2.0,
    weight_tds: float = 1.0,
    success_above: float | None = None,
    normalize_mean_weight: bool = False,
) -> Chain:
    """GRPO, advantageous prompts amplified (the text setting)."""
    return adora(
        eps=eps, mode="amplify", criteria=criteria, tau=tau, weight_tas=weight_tas, weight_tds=weight_tds,
        success_above=success_above, normalize_mean_weight=normalize_mean_weight,
    )  # fmt: skip


_name_stage("canon")
_name_stage("opo")


def _canon(metric: str, **fixed: Any) -> Chain:
    return _stages(stage("canon", metric=metric, **fixed))


@register_preset(
    "canon_inter", formula="A_i = r_i - mean of the other half", source="CANON equation 3 (arXiv 2509.23962)"
)
def canon_inter(*, metric: str = "entropy", alpha: float = 1.0) -> Chain:
    """CANON with mu = 1: compare between the halves."""
    return _canon(metric, mu=1.0, alpha=alpha)


@register_preset(
    "canon_intra", formula="A_i = r_i - mean of its own half", source="CANON equation 4 (arXiv 2509.23962)"
)
def canon_intra(*, metric: str = "entropy") -> Chain:
    """CANON with mu = 0: compare within the halves."""
    return _canon(metric, mu=0.0)


@register_preset(
    "canon_dynamic",
    formula="canon with a scheduled mu, 1 - accuracy by default",
    source="CANON section 5.2 (arXiv 2509.23962)",
)
def canon_dynamic(*, metric: str = "entropy", schedule: str = "first_inter_later_intra") -> Chain:
    """CANON with mu on a schedule: 1 - accuracy (the paper's 1.5B setting; needs no constants).

    The paper's 7B and Llama runs use schedule="cosine_first_inter" (over 150 steps).
    """
    return _canon(metric, mu=schedule)


@register_preset(
    "canon_eff",
    formula="canon on length, mu = 1/2, longer half's rewards times alpha",
    source="CANON-Eff, equation 9 (arXiv 2509.23962)",
)
def canon_eff(*, alpha: float = 0.96, mu: float = 0.5) -> Chain:
    """CANON-Eff: Dr.GRPO that pays for shorter answers; the published alphas are 0.5, 0.7, 0.8, 0.88 and 0.96."""
    return _canon("length", mu=mu, alpha=alpha)


@register_preset("canon_random", formula="canon_inter with random halves", source="CANON, ablation (arXiv 2509.23962)")
def canon_random(*, mu: float = 1.0, seed: int = 0) -> Chain:
    """CANON with halves drawn at random per step: what regrouping does without a condition."""
    return _canon("random", mu=mu, seed=seed)
