"""`import upside` brings torch and the standard library, nothing else of weight."""

import subprocess
import sys

PROGRAM = """
import sys, torch
before = set(sys.modules)
import upside
upside.estimator("grpo")(upside.Rollouts([1, 0], [0, 0]))
brought = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(brought - set(sys.stdlib_module_names)))
"""


def test_the_core_brings_nothing_but_torch():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["upside"]


def test_the_core_brings_no_other_part_of_the_package():
    program = "import sys, upside; print(*sorted(m for m in sys.modules if m.startswith('upside.')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    parts = {name.split(".")[1] for name in done.stdout.split()}
    assert parts == {"chain", "estimators", "explain", "groups", "metrics", "registry", "rollouts", "schedules"}


def test_it_is_quick_once_torch_is_there():
    program = "import torch, time; t = time.process_time(); import upside; print(time.process_time() - t)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert float(done.stdout) < 2
