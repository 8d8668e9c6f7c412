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
    program = (
        "import sys, upside; upside.estimator('grpo'); upside.explain;"
        "print(*sorted(m for m in sys.modules if m.startswith('upside.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    parts = {name.split(".")[1] for name in done.stdout.split()}
    assert parts == {
        "chains",
        "estimators",
        "explanation",
        "groups",
        "metrics",
        "registry",
        "rollouts",
        "schedules",
        "sentences",
        "spec",
    }


def test_the_package_alone_does_not_wait_for_torch():
    program = "import sys, upside; print('torch' in sys.modules, upside.__version__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split()[0] == "False"


def test_names_stay_functions_whatever_is_imported_first():
    program = "import upside.chains, upside.explanation; print(callable(upside.chain), callable(upside.explain))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["True", "True"]


def test_a_newcomer_cannot_take_a_built_in_name():
    program = (
        "import upside\n"
        "try:\n    upside.register_stage('canon', kind='baseline')(lambda rollouts, advantages: advantages)\n"
        "except ValueError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "already registered" in done.stdout


def test_it_is_quick_once_torch_is_there():
    program = "import torch, time; t = time.process_time(); import upside; print(time.process_time() - t)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert float(done.stdout) < 2
