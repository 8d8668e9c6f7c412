"""A fixed random projection of gradients: a count sketch."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


class Sketch:
    """D numbers to K: each coordinate is added, with a random sign, to one random place of K.

    Inner products are kept in expectation, with a standard error of at most sqrt((|u|^2 |v|^2 + (u v)^2) / K) over
    the draws of the sketch (Charikar, Chen, Farach-Colton 2002). D <= K keeps everything, exactly. Costs one int32
    for each of the D coordinates.
    """

    def __init__(self, dimensions: int, size: int, seed: int = 0, device: torch.device | str = "cpu") -> None:
        if size < 1:
            raise ValueError(f"projection must have at least 1 dimension, got {size}")
        self.exact = dimensions <= size
        self.size = dimensions if self.exact else size
        if not self.exact:
            draw = torch.Generator().manual_seed(seed)
            # places K to 2K - 1 count with a minus
            self.places = torch.randint(2 * size, (dimensions,), dtype=torch.int32, generator=draw).to(device)

    def __call__(self, parts: Iterable[Tensor]) -> Tensor:
        """(K,) float32 of a vector given in parts, such as the gradients of the parameters in order."""
        if self.exact:
            return torch.cat([part.reshape(-1).float() for part in parts])
        folded = torch.zeros(2 * self.size, device=self.places.device)
        start = 0
        for part in parts:
            folded.index_add_(0, self.places[start : start + part.numel()], part.reshape(-1).float())
            start += part.numel()
        return folded[: self.size] - folded[self.size :]
