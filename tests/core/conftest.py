import pytest
import torch

from upside import registry

torch.set_num_threads(1)


@pytest.fixture
def names(monkeypatch):
    """A registry whose additions are gone after the test."""
    monkeypatch.setattr(registry, "STAGES", registry.STAGES.copy())
    monkeypatch.setattr(registry, "PRESETS", registry.PRESETS.copy())
    return registry
