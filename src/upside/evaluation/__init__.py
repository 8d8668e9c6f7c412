"""How good a model is: avg@k, unbiased pass@k, maj@k, with intervals clustered by problem.

`evaluate` works on a loaded model, `run_evaluation` on the names of a model and of sets (what `upside evaluate`
calls), `compare` on two evaluations, `plan_group` on nothing but a pass rate.
"""

from upside.evaluation.backends import Backend, load_model
from upside.evaluation.command import run_evaluation
from upside.evaluation.judging import Judge, Row
from upside.evaluation.metrics import Estimate, majority_at_k, mixed_share, pass_at_k
from upside.evaluation.paired import Difference, Paired, compare
from upside.evaluation.plan import GroupPlan, plan_group
from upside.evaluation.results import Evaluation
from upside.evaluation.run import evaluate
from upside.evaluation.sampling import PRESETS, Sampling
from upside.evaluation.sets import style_of
from upside.evaluation.suite import Suite
from upside.evaluation.table import describe, describe_paired, describe_suite, figures

__all__ = [
    "PRESETS",
    "Backend",
    "Difference",
    "Estimate",
    "Evaluation",
    "GroupPlan",
    "Judge",
    "Paired",
    "Row",
    "Sampling",
    "Suite",
    "compare",
    "describe",
    "describe_paired",
    "describe_suite",
    "evaluate",
    "figures",
    "load_model",
    "majority_at_k",
    "mixed_share",
    "pass_at_k",
    "plan_group",
    "run_evaluation",
    "style_of",
]
