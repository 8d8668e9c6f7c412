from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from rich.console import Console

from upside.analysis import explain_groups
from upside.analysis.explaining.console import print_groups
from upside.cli import main


def shown(block, width: int = 80, full: bool = False) -> str:
    out = Console(file=io.StringIO(), width=width, highlight=False)
    print_groups(block, full, out)
    return out.file.getvalue()


def test_a_group_on_80_columns(log_of) -> None:
    log = log_of([{"prompt": "1+1=", "rewards": [1.0, 0.0, 0.0], "entropy": [0.25, 0.5, 0.75],
                   "correct": [True, False, False], "reference_reward": [0.0, 0.0, 1.0]}])  # fmt: skip
    text = shown(explain_groups(log, "aapo > adora_weight"))
    lines = [line.rstrip() for line in text.splitlines()]
    assert max(map(len, lines)) <= 80
    assert lines[0] == "step 1, group 0  extreme, attenuated, mixed"
    assert lines[1] == "1+1="
    (row,) = [line.split() for line in lines if line.startswith("0 ")]
    assert row == ["0", "1", "yes", "10", "0.250", "0", "+0.667", "+1.155", "+0.28", "+1.435", "0.10", "+0.143"]
    assert " 0 answer 0.0" in lines
    assert "…" not in text  # no header is cut


def test_the_files_of_a_prompts_pictures(log_of) -> None:
    files = ["pictures/" + "a" * 16 + ".png", "pictures/b.png"]
    text = shown(explain_groups(log_of([{"prompt": "<image>area?", "rewards": [0.0, 1.0], "images": [files, files]}])))
    assert text.splitlines()[1:4] == ["<image>area?", f"a/log/{files[0]}", f"a/log/{files[1]}"]


def test_responses_alike_share_a_sentence(log_of) -> None:
    text = shown(explain_groups(log_of([{"rewards": [0.0, 0.0, 1.0]}]), "dr_grpo"))
    assert text.count("Reward 0 against the group's mean 0.3333: -0.3333.") == 1
    assert text.index("answer 0.1") < text.index("Reward 0") < text.index("answer 0.2")


def test_what_a_model_wrote_is_only_text(log_of) -> None:
    evil = "[bold]x[/bold]\x1b[2J\x1b]0;title\x07\u202eabc\nsecond line"
    log = log_of([{"prompt": evil, "rewards": [1.0, 0.0], "response": [evil, "x" * 5_000]}])
    text = shown(explain_groups(log, "dr_grpo"))
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert "[bold]x[/bold]\N{REPLACEMENT CHARACTER}[2J" in text
    assert "⏎ second line" in text
    assert len(text) < 3_000  # one line of the long response
    whole = shown(explain_groups(log, "dr_grpo"), full=True)
    assert "\nsecond line" in whole
    assert whole.count("x") > 5_000
    assert not {"\x1b", "\x07", "\u202e"} & set(whole)


@pytest.fixture
def file(tmp_path: Path, log_of) -> Path:
    groups = [{"step": step, "prompt": f"{step}+{i}=", "rewards": [1.0, 0.0]} for step in (1, 2) for i in range(5)]
    table = log_of(groups).table.drop_columns(["prompt"]).rename_columns({"prompt_text": "prompt", "reward": "score"})
    pa.parquet.write_table(table, tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


def call(*arguments: str):
    return CliRunner().invoke(main, ["explain", *arguments])


def test_the_command(file: Path) -> None:
    result = call(str(file), "--map", "reward=score", "--estimator", "rloo")
    assert result.exit_code == 0, result.output
    assert [line for line in result.output.splitlines() if line.startswith("step")] == [
        "step 2, group 0  extreme, mixed", "step 2, group 2  mixed", "step 2, group 4  mixed",
    ]  # fmt: skip
    assert "Reward 1 against the others' mean 0: +1." in result.output
    result = call(str(file), "--map", "reward=score", "--step", "1", "--group", "3")
    assert result.output.startswith("step 1, group 3  mixed\n1+3=\n")
    result = call(str(file), "--map", "reward=score", "--prompt", "1+4", "--full")
    assert result.output.startswith("step 1, group 4")


def test_a_kind_is_read_as_it_is_shown(file: Path) -> None:
    for kind in ("too_hard", "too-hard", "too hard"):
        assert "no group is too_hard" in call(str(file), "--map", "reward=score", "--kind", kind).output


def test_a_group_that_is_not_there(file: Path) -> None:
    result = call(str(file), "--map", "reward=score", "--step", "9")
    assert result.exit_code == 2
    assert "has no step 9; it has 2, 1 to 2" in result.output
    assert len(result.output.splitlines()) == 1
