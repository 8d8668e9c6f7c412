"""`upside doctor` and the logs that hold numbers alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner

from upside.analysis import read_log
from upside.analysis.doctor import DoctorError, diagnose
from upside.analysis.logs import LogError
from upside.analysis.logs.metrics_only import canonical
from upside.cli import main

FALLING = [{"step": step, "reward": 0.4 + step / 200, "kl": 0.01 * 1.12**step} for step in range(1, 61)]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def doctor(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["doctor", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_exit_codes(tmp_path: Path) -> None:
    sick, well = (
        write(tmp_path / "sick.jsonl", FALLING),
        write(tmp_path / "well.jsonl", [{**r, "kl": 0.01} for r in FALLING]),
    )
    assert doctor(well)[0] == 0
    assert doctor(sick)[0] == 1
    assert doctor(well, sick)[0] == 1
    assert doctor(sick, "--set", "kl_blowup.fail=100")[0] == 0
    assert doctor(sick, "--set", "kl_blowup.fail=100", "--fail-on", "warn")[0] == 1
    assert doctor(sick, "--skip", "kl_blowup")[0] == 0
    assert doctor(tmp_path / "none")[0] == 2
    assert doctor()[0] == 2


def test_what_it_says(tmp_path: Path) -> None:
    code, text = doctor(write(tmp_path / "sick.jsonl", FALLING))
    assert code == 1
    flat = " ".join(text.split())
    assert "fail kl_blowup: 0.015 nats at first, 6.889 recently" in flat
    assert "threshold: warn from 0.5 nats per token recently" in flat
    assert "remedy: a higher beta" in flat
    assert "unknown (too few steps, or not in the log:" in flat
    assert "reward_not_moving" not in flat.split("Diagnosis")[1].split("fail kl_blowup")[1]
    assert "(too few steps" not in doctor(tmp_path / "sick.jsonl", "--all")[1]  # they are listed
    assert "ok reward_not_moving: mean reward" in " ".join(doctor(tmp_path / "sick.jsonl", "--all")[1].split())


def test_json(tmp_path: Path) -> None:
    sick = write(tmp_path / "sick.jsonl", FALLING)
    _, text = doctor(sick, "--json", "--only", "kl_blowup,clip_share")
    found = json.loads(text)
    assert found["source"] == str(sick)
    assert [(f["check"], f["level"]) for f in found["findings"]] == [("kl_blowup", "fail"), ("clip_share", "unknown")]
    assert found["findings"][0]["steps"] == [55, 60]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "truncation", "--skip", "truncation"], "no check is left"),
        (["--only", "kl_blow"], "there is no check 'kl_blow'; did you mean kl_blowup?"),
        (["--set", "kl_blowup.high=1"], "kl_blowup has no threshold 'high'; it has warn, fail, growth"),
        (["--set", "kl_blowup.fail=much"], "kl_blowup.fail: 'much' is no number"),
        (["--set", "kl_blowup"], "cannot read 'kl_blowup'; write KEY=VALUE"),
    ],
)
def test_wrong_names(tmp_path: Path, arguments: list[str], message: str) -> None:
    code, text = doctor(write(tmp_path / "log.jsonl", FALLING), *arguments)
    assert code == 2
    assert message in text


def test_list_names_every_check() -> None:
    code, text = doctor("--list")
    assert code == 0
    assert "entropy_collapse: Entropy collapse" in text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("trainer_state.json", json.dumps({"log_history": [
            {"step": 5, "reward": 0.1, "completions/mean_length": 90.0, "frac_reward_zero_std": 0.5,
             "rewards/fmt/mean": 1}, {"step": 5, "eval_reward": 0.2}, 
            {"step": 10, "reward": 0.3, "learning_rate": 1e-6, "train_runtime": 9.0}]})),
        ("metrics.csv", "step,train/reward,completions/mean_length,frac_reward_zero_std,rewards/fmt/mean,eval_reward,"
                        "learning_rate\n5,0.1,90.0,0.5,1,0.2,\n10,0.3,,,,,1e-6\n"),
        ("verl.log", "(TaskRunner pid=3) step:5 - critic/rewards/mean:0.1 - response_length/mean:90.0 - "
                     "frac_reward_zero_std:np.float64(0.5) - rewards/fmt/mean:1 - val-core/x/acc/mean@1:0.2\nother\n"
                     "(TaskRunner pid=3) step:10 - critic/score/mean:0.3 - actor/lr:1e-06\n"),
        ("file.jsonl", '{"step": 5, "data": {"critic/rewards/mean": 0.1, "response_length/mean": 90.0, '
                       '"frac_reward_zero_std": 0.5, "rewards/fmt/mean": 1, "val-core/x/reward/mean@4": 0.2}}\n'
                       '{"step": 10, "data": {"reward": 0.3, "lr": 1e-06}}\n'),
    ],
)  # fmt: skip
def test_the_numbers_of_others_have_our_names(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    log = read_log(tmp_path / name)
    assert len(log) == 0
    assert [row["step"] for row in log.metrics] == [5, 10]
    first, last = log.metrics
    wanted = {
        "reward": 0.1,
        "length": 90.0,
        "constant_group_share": 0.5,
        "reward_part/fmt": 1,
        "held_out_accuracy": 0.2,
    }
    assert wanted.items() <= first.items()
    assert {"reward": 0.3, "lr": 1e-6}.items() <= last.items()


def test_a_recorders_folder(tmp_path: Path) -> None:
    table = pa.table(
        {"step": [0, 1], "reward_mean": [0.1, 0.2], "kl_mean": [0.0, None], "kl_positional": [[0.1], [0.2]]}
    )
    pa.parquet.write_table(table, tmp_path / "steps.parquet")
    log = read_log(tmp_path)
    assert [(row["reward"], row["kl"]) for row in log.metrics] == [(0.1, 0.0), (0.2, None)]
    assert diagnose(log, only=["kl_blowup"]).findings[0]["level"] == "ok"


def test_of_two_names_of_one_thing_the_better_one_counts() -> None:
    assert canonical({"critic/score/mean": 1.0, "critic/rewards/mean": 2.0}) == {"reward": 2.0}
    assert canonical({"reward_mean": 2.0, "reward": 1.0}) == {"reward": 1.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"step": 1, "reward": 0.1}\n{"step": 2, "rew', "line 2: no JSON"),
        ('{"step": "one", "reward": 0.1}\n', "entry 1: step 'one' is no step"),
        ('{"step": 1, "reward": 0.1}\n[1]\n', "line 2: expected an object"),
    ],
)
def test_a_broken_log_names_the_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "log.jsonl").write_text(text)
    with pytest.raises(LogError, match=message):
        read_log(tmp_path / "log.jsonl")


def test_a_log_of_nothing_cannot_be_checked(tmp_path: Path) -> None:
    log = read_log(write(tmp_path / "log.jsonl", FALLING))
    with pytest.raises(DoctorError, match="neither rollouts nor metrics"):
        diagnose(type(log)("x", "table", log.table))
