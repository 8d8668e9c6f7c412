"""What more than one package of tests uses."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny untrained model's folder."""
    import tiny  # imports transformers, which most tests do without

    return tiny.model_folder(tmp_path_factory.mktemp("tiny"))
