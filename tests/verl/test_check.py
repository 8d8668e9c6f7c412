"""`upside check verl`, as a user runs it. It starts Ray."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import upside

pytestmark = pytest.mark.slow


def check(**environment):
    command = [str(Path(sys.executable).parent / "upside"), "check", "verl"]
    environment = {**os.environ, "VERL_PLATFORM": "cpu", "RAY_USAGE_STATS_ENABLED": "0", **environment}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def test_it_finds_the_plugin_in_a_ray_worker_and_every_seam():
    done = check()
    assert done.returncode == 0, done.stdout + done.stderr
    names = len(upside.presets()) + 1
    assert f"ok       loaded in the driver: {names} estimators" in done.stdout
    assert f"ok       loaded in the Ray worker: {names} estimators" in done.stdout
    assert "verl 0.9.1, ray 2.60.0" in done.stdout
    assert "PPOTrainerSync._compute_advantage" in done.stdout
    assert "MISSING" not in done.stdout


def test_a_plugin_that_verl_was_told_not_to_load_is_missing():
    done = check(VERL_USE_EXTERNAL_PLUGINS="none")
    assert done.returncode == 1
    assert "MISSING  loaded in the Ray worker: import verl did not load the plug-in" in done.stdout
    assert "unset VERL_USE_EXTERNAL_PLUGINS, or add upside to its names" in done.stderr
