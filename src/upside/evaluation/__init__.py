"""How good a model is: avg@k, unbiased pass@k, maj@k, with intervals clustered by problem.

`evaluate` works on a loaded model, `run_evaluation` on a model folder and a task name (what
`upside evaluate` calls), `plan_group` on nothing but a pass rate.
"""

from upside.evaluation.command import load_model, run_evaluation, style_of
from upside.evaluation.generate import Sampling, generate, transformers_backend, upside_backend
from upside.evaluation.metrics import Estimate, majority_at_k, mixed_share, pass_at_k
from upside.evaluation.plan import GroupPlan, plan_group
from upside.evaluation.results import Evaluation, Row
from upside.evaluation.run import Judge, evaluate
from upside.evaluation.table import describe, figures

__all__ = [
    "Estimate",
    "Evaluation",
    "GroupPlan",
    "Judge",
    "Row",
    "Sampling",
    "describe",
    "evaluate",
    "figures",
    "generate",
    "load_model",
    "majority_at_k",
    "mixed_share",
    "pass_at_k",
    "plan_group",
    "run_evaluation",
    "style_of",
    "transformers_backend",
    "upside_backend",
]
