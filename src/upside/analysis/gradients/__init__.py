"""How good an estimator's gradient is at fixed weights: bend, noise, gain, by group size.

`sample` is what is measured (responses with the gradient of their log-probability), from a language model
(`language`) or from a bandit whose true gradient is known (`bandit`); `moments` weighs these gradients as each
estimator would, `figures` turns that into figures with intervals, `scope` is the whole of it as one call.
"""

from upside.analysis.gradients.bandit import SoftmaxBandit
from upside.analysis.gradients.figures import Figures
from upside.analysis.gradients.sample import Sample
from upside.analysis.gradients.scope import Microscope, measure, microscope

__all__ = ["Figures", "Microscope", "Sample", "SoftmaxBandit", "measure", "microscope"]
