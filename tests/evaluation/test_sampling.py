"""Presets of the papers, and what wins over what."""

import pytest

from upside.evaluation.sampling import PRESETS, Sampling, as_dict, resolve


def test_the_papers_settings():
    assert resolve("aapo") == Sampling(1, False, 0.6, 0.95, 0, 32768)
    assert resolve("adora") == Sampling(1, False, 0.8, 0.95, 0, 10000)
    assert resolve("canon") == Sampling(10, False, 0.6, 1.0, 0, 8192)
    assert set(PRESETS) == {"aapo", "adora", "canon"}


def test_explicit_settings_win():
    assert resolve("aapo", temperature=1.0, samples=4) == Sampling(4, False, 1.0, 0.95, 0, 32768)
    assert resolve("canon", top_p=None, max_new_tokens=100).max_new_tokens == 100


def test_without_a_preset():
    assert resolve(None) == Sampling(16, False, 1.0, 1.0, 0, 2048)
    assert resolve(None, short=True) == Sampling(16, False, 1.0, 1.0, 0, 96)
    assert resolve(None, short=True, greedy=True).samples == 1
    assert resolve("canon", greedy=True).samples == 1
    assert resolve(None, greedy=False).samples == 16
    with pytest.raises(ValueError, match="1 when greedy, got 4"):
        resolve(None, greedy=True, samples=4)
    with pytest.raises(ValueError, match="unknown sampling preset 'canno': did you mean 'canon'"):
        resolve("canno")


def test_as_text_and_numbers():
    assert str(resolve("aapo")) == "temperature 0.6, top-p 0.95, 1 response a problem of at most 32768 tokens"
    assert str(Sampling(4, top_k=20)) == (
        "temperature 1, top-p 1, top-k 20, 4 responses a problem of at most 96 tokens"
    )
    assert str(Sampling(1, greedy=True)) == "greedy, 1 response a problem of at most 96 tokens"
    assert as_dict(Sampling(1, greedy=True, temperature=0.3))["temperature"] is None
