import pytest

from upside import registry


@pytest.fixture
def names(monkeypatch):
    """A registry whose additions are gone after the test."""
    monkeypatch.setattr(registry, "STAGES", registry.STAGES.copy())
    monkeypatch.setattr(registry, "PRESETS", registry.PRESETS.copy())
    return registry
