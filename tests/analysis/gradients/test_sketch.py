from __future__ import annotations

import numpy as np
import pytest
import torch

from upside.analysis.gradients.sketch import Sketch


def test_small_vectors_are_kept_whole():
    sketch = Sketch(5, 8)
    assert sketch.exact
    assert sketch([torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([5.0])]).tolist() == [1, 2, 3, 4, 5]


def test_inner_products_are_kept_on_average_with_the_stated_error():
    draw, size = torch.Generator().manual_seed(0), 64
    u = torch.randn(3000, generator=draw)
    v = 0.5 * u + torch.randn(3000, generator=draw)
    found = [float(sketch([u]) @ sketch([v])) for sketch in (Sketch(3000, size, seed) for seed in range(400))]
    error = float(((u @ u) * (v @ v) + (u @ v) ** 2) / size) ** 0.5
    assert np.mean(found) == pytest.approx(float(u @ v), abs=4 * error / 20)
    assert 0.85 * error < np.std(found) < 1.1 * error


def test_it_is_linear_and_the_same_for_a_seed_and_for_any_parts():
    u = torch.arange(40.0)
    whole = Sketch(40, 8, seed=3)([u])
    torch.testing.assert_close(Sketch(40, 8, seed=3)([u[:13], u[13:].reshape(3, 9)]), whole)
    torch.testing.assert_close(Sketch(40, 8, seed=3)([2 * u]), 2 * whole)
    assert not torch.equal(Sketch(40, 8, seed=4)([u]), whole)


def test_no_dimension_is_refused():
    with pytest.raises(ValueError, match="at least 1 dimension, got 0"):
        Sketch(5, 0)
