"""`upside` with one more stage, `growing`: a weight that rises by 1% with every training batch, so it keeps state."""

from __future__ import annotations

import torch

import upside
from upside.cli import main


@upside.register_stage("growing", kind="weight", formula="A_i (1 + n/100)", source="a test")
class Growing:
    """Weight 1 + n/100 in training batch n."""

    needs = frozenset[str]()

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, rollouts: upside.Rollouts, advantages: torch.Tensor) -> torch.Tensor:
        self.seen += rollouts.training
        return advantages * (1 + self.seen / 100)

    def state_dict(self) -> dict[str, int]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.seen = state["seen"]


if __name__ == "__main__":
    main()
