"""A stage of one's own: by decorator in ten lines, by an installed plug-in; names that clash."""

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pytest

import upside
from upside import Rollouts
from upside.testing import check_estimator

if TYPE_CHECKING:
    from torch import Tensor as T

BATCH = {"rewards": [1, 0, 0, 1], "groups": list("aabb"), "lengths": [2, 2, 2, 8]}


def values(spec):
    return upside.estimator(spec)(Rollouts(**BATCH)).values.tolist()


def test_a_stage_in_ten_lines(names):
    @upside.register_stage("short_first", kind="weight", needs=["lengths"], formula="A_i / (1 + c L_i)")
    def short_first(rollouts, advantages, *, cost: float = 0.5):
        return advantages / (1 + cost * rollouts.lengths)

    assert values("dr_grpo > short_first") == [0.25, -0.25, -0.25, pytest.approx(0.1)]
    assert values("dr_grpo > short_first:cost=0") == [0.5, -0.5, -0.5, 0.5]
    assert upside.estimator("dr_grpo > short_first").needs == {"lengths"}
    check_estimator("dr_grpo > short_first")
    with pytest.raises(ValueError, match=r"short_first has no option 'costs'\. Did you mean 'cost'"):
        upside.stage("short_first", costs=1)
    with pytest.raises(ValueError, match="short_first: option cost='x' must be a finite number"):
        upside.stage("short_first", cost="x")


def test_a_dataclass_is_a_stage_whose_fields_are_options(names):
    @upside.register_stage("clip")
    @dataclass(frozen=True)
    class Clip:
        bound: float = 1.0
        side: Literal["both", "high"] = "both"

        def __call__(self, rollouts, advantages):
            return advantages.clamp(None if self.side == "high" else -self.bound, self.bound)

    assert values("dr_grpo > clip:bound=0.25") == [0.25, -0.25, -0.25, 0.25]
    assert values("dr_grpo > clip:bound=0.25,side=high") == [0.25, -0.5, -0.5, 0.25]
    with pytest.raises(ValueError, match="clip: option side='low' must be one of 'both', 'high'"):
        upside.stage("clip", side="low")


def test_a_choice_is_told_from_its_look_alikes(names):
    @upside.register_stage("nth")
    def nth(rollouts, advantages, *, part: Literal[1, 2] = 1):
        return advantages / part

    assert values("dr_grpo > nth:part=2") == [0.25, -0.25, -0.25, 0.25]
    for part in (True, 1.0, "1"):
        with pytest.raises(ValueError, match=r"nth: option part=.* must be one of 1, 2"):
            upside.stage("nth", part=part)


def test_a_preset_of_ones_own(names):
    @upside.register_preset("careful", formula="A_i / (std + 1)", source="here")
    def careful(*, eps: float = 1.0):
        return upside.stage("group_mean"), upside.stage("group_std", eps=eps)

    assert values("careful") == values("grpo:eps=1")
    assert values("careful:eps=0.5") == values("grpo:eps=0.5")
    assert values("careful > adora_weight") == values("grpo:eps=1 > adora_weight")
    with pytest.raises(ValueError, match="careful has no option 'epsilon'"):
        upside.estimator("careful", epsilon=1)


def test_annotations_for_type_checkers_alone(names):
    def halved(rollouts: "Rollouts", advantages: "T", *, by: "float" = 2.0) -> "T":
        return advantages / by

    upside.register_stage("halved")(halved)
    assert values("dr_grpo > halved") == [0.25, -0.25, -0.25, 0.25]
    assert values("dr_grpo > halved:by=4") == [0.125, -0.125, -0.125, 0.125]


@pytest.mark.parametrize("taken", ["grpo", "group_std", "canon"])
def test_a_name_that_is_taken_is_refused(names, taken):
    with pytest.raises(ValueError, match=rf"'{taken}' is already registered by upside\.estimators"):
        upside.register_stage(taken)(lambda rollouts, advantages: advantages)
    with pytest.raises(ValueError, match=f"'{taken}' is already registered"):
        upside.register_preset(taken, formula="", source="")(lambda: ())


def test_the_same_function_may_register_again(names):
    def twice(rollouts, advantages):
        return advantages

    upside.register_stage("twice")(twice)
    upside.register_stage("twice")(twice)  # a notebook cell run again, a module reloaded
    assert values("dr_grpo > twice") == values("dr_grpo")


@pytest.mark.parametrize("name", ["", "two words", "a>b", "a:b", "1st"])
def test_a_name_that_no_spec_string_could_hold(names, name):
    with pytest.raises(ValueError, match="is no name for a stage or preset"):
        upside.register_stage(name)(lambda rollouts, advantages: advantages)


@pytest.mark.parametrize("build", [lambda rollouts: 0, lambda rollouts, advantages, cost=0.5: advantages])
def test_a_function_whose_options_could_not_be_reached(names, build):
    with pytest.raises(
        ValueError, match=r"stage 'x': expected \(rollouts, advantages, \*, option=default, …\), got pos"
    ):
        upside.register_stage("x")(build)
    assert "x" not in names.STAGES


def test_a_decorator_that_is_half_written(names):
    with pytest.raises(ValueError, match=r"register_stage needs a name: write @upside.register_stage\("):
        upside.register_stage(lambda rollouts, advantages: advantages)
    with pytest.raises(ValueError, match=r"stage 'x': needs is a set of field names: write needs=\{'lengths'\}"):
        upside.register_stage("x", needs="lengths")


def test_an_unknown_kind():
    with pytest.raises(ValueError, match="kind must be one of baseline, scale, augment, weight, got 'bonus'"):
        upside.register_stage("x", kind="bonus")


def test_every_stage_and_preset_says_what_it_is():
    from upside.registry import PRESETS, STAGES

    for info in [*STAGES.values(), *PRESETS.values()]:
        assert info.formula, info.name
        assert info.source, info.name
        assert info.build.__doc__ or info.options_of.__doc__, info.name


PLUGIN = """
import upside

@upside.register_stage("echo", kind="baseline")
def echo(rollouts, advantages, *, times: float = 1.0):
    return advantages * times

@upside.register_preset("echo_twice", formula="2 r_i", source="a plug-in")
def echo_twice():
    return (upside.stage("echo", times=2.0),)
"""
USE = """
import upside
assert {"echo_twice", "grpo"} <= set(upside.presets())
print(upside.estimator("echo_twice")(upside.Rollouts([1, 2], [0, 0])).values.tolist())
print(upside.estimator("echo:times=3 > group_std")(upside.Rollouts([1, 1], [0, 0])).values.tolist())
"""


def install(folder, module, source):
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[upside.stages]\necho = {module}\n")
    return os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}


def test_an_installed_plug_in_is_found(tmp_path):
    env = install(tmp_path, "upside_echo", PLUGIN)
    done = subprocess.run([sys.executable, "-c", USE], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[2.0, 4.0]", "[3.0, 3.0]"]


def test_a_plug_in_may_build_an_estimator_while_it_is_imported(tmp_path):
    env = install(tmp_path, "upside_eager", "import upside\nBASE = upside.estimator('grpo')\n" + PLUGIN)
    info = tmp_path / "upside_eager-1.0.dist-info" / "entry_points.txt"
    info.write_text("[upside.stages]\necho = upside_eager:echo\n")
    done = subprocess.run([sys.executable, "-c", USE], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_threads_wait_for_the_stages():
    code = (
        "import sys, threading, upside\nsys.setswitchinterval(1e-6)\nfound = []\n"
        "def work(): found.append(len(upside.presets()))\n"
        "threads = [threading.Thread(target=work) for _ in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "print(len(found), len(set(found)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["8", "1"], done.stderr


def test_a_broken_plug_in_is_named(tmp_path):
    env = install(tmp_path, "upside_broken", "import no_such_module_anywhere\n")
    done = subprocess.run([sys.executable, "-c", USE], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "plug-in 'echo' (upside_broken, of upside-broken 1.0) cannot be loaded" in done.stderr
    assert "no_such_module_anywhere" in done.stderr
