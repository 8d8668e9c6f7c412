"""Stages and presets. Importing this package registers all of them."""

from upside.estimators import aapo, adora, baselines, canon, gpg, presets, scales

__all__ = ["aapo", "adora", "baselines", "canon", "gpg", "presets", "scales"]
