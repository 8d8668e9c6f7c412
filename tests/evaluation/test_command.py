"""`run_evaluation` and `upside evaluate` from end to end: files, resume after a kill, baselines, errors."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from upside.evaluation import Suite, run_evaluation
from upside.evaluation.journal import PARTIAL

FILES = ("evaluation.json", "responses.parquet")
SMALL = {"problems": 4, "samples": 8, "max_new_tokens": 6, "batch_size": 8}


def screen() -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=80), out


def contents(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in FILES]


def test_two_sets_and_their_files(folders, tmp_path):
    console, out = screen()
    found = run_evaluation(folders[0], ["arithmetic", "k=knights"], **SMALL, output=tmp_path, console=console)
    assert list(found.evaluations) == ["arithmetic", "k"]
    assert [len(e.rows) for e in found.evaluations.values()] == [32, 32]
    written = json.loads((tmp_path / "evaluation.json").read_text())
    assert written["settings"]["sampling"]["samples"] == 8
    assert written["settings"]["backend"] == "upside"
    assert written["settings"]["sets"]["k"]["task"] == "knights"
    assert written["sets"]["k"]["mixed"]["8"]["problems"] == 4
    assert [e.rows for e in Suite.load(tmp_path).evaluations.values()] == [e.rows for e in found.evaluations.values()]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(FILES)
    shown = out.getvalue()
    assert "temperature 1, top-p 1, 8 responses a problem of at most 6 tokens; seed 0; backend upside" in shown
    assert "average of 2 sets" in shown
    assert max(map(len, shown.split("intervals:")[0].splitlines()[1:])) <= 80


@pytest.mark.parametrize("name", ["math500", "gsm8k"])
def test_a_public_set_and_the_mathematical_verifier(folders, tmp_path, name):
    """From a local sample, in a batch: prompts that do not fit are counted; noise is no answer."""
    data = Path(__file__).parents[1] / "data" / {"math500": "math500.jsonl", "gsm8k": "gsm8k_test.jsonl"}[name]
    console, out = screen()
    found = run_evaluation(
        folders[0], [name, "k=knights"], options={f"{name}.path": str(data)}, problems=3 if name == "gsm8k" else 8,
        samples=2, max_new_tokens=10, max_prompt_tokens=245, output=tmp_path, console=console,
    )  # fmt: skip
    rows = found[name].rows
    assert rows
    assert {row.outcome for row in rows} <= {"unparsed", "wrong"}
    assert found[name].accuracy.value == 0.0
    settings = found.settings["sets"][name]
    assert settings["problems"] == len(rows) // 2
    if dropped := settings["dropped"].get("too_long"):
        assert f"{name}: left out {dropped} too_long" in out.getvalue()


def test_the_same_command_again_shows_the_same_and_answers_nothing(folders, tmp_path):
    first = run_evaluation(folders[0], "arithmetic", **SMALL, output=tmp_path, console=screen()[0])
    before = contents(tmp_path)
    console, out = screen()
    again = run_evaluation(folders[0], "arithmetic", **SMALL, output=tmp_path, console=console)
    assert "holds this evaluation, finished" in out.getvalue()
    assert again["arithmetic"].rows == first["arithmetic"].rows
    assert contents(tmp_path) == before
    with pytest.raises(ValueError, match=r"other settings: sampling.temperature is 1.0 there, 0.5 here. Name another"):
        run_evaluation(folders[0], "arithmetic", **SMALL, temperature=0.5, output=tmp_path, console=screen()[0])
    with pytest.raises(ValueError, match=r"other settings: model.weights is '"):
        run_evaluation(folders[1], "arithmetic", **SMALL, output=tmp_path, console=screen()[0])
    with pytest.raises(ValueError, match=r"sets.arithmetic is there only; sets.knights is here only"):
        run_evaluation(folders[0], "knights", **SMALL, output=tmp_path, console=screen()[0])


def test_bit_for_bit_with_the_bundled_model(tmp_path):
    # verl#1683, open-instruct#648: cannot reproduce; +-1 point between runs
    how = {"problems": 12, "samples": 4, "batch_size": 16, "max_new_tokens": 40}
    for name in ("one", "two"):
        run_evaluation("bundled", "reasoner", **how, output=tmp_path / name, console=screen()[0])
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_what_another_batch_size_keeps(tmp_path):
    """Greedy responses are the same; sampled ones are other draws of the same law."""
    how = {"problems": 12, "max_new_tokens": 40, "console": screen()[0]}
    sizes = (5, 64)
    greedy = [run_evaluation("bundled", **how, greedy=True, batch_size=size)["reasoner"] for size in sizes]
    assert [r.response for r in greedy[0].rows] == [r.response for r in greedy[1].rows]
    sampled = [run_evaluation("bundled", **how, samples=4, batch_size=size)["reasoner"] for size in sizes]
    assert [r.response for r in sampled[0].rows] != [r.response for r in sampled[1].rows]


def start(model: Path, output: Path, problems: int = 60) -> subprocess.Popen:
    arguments = ["--task", "arithmetic", "--problems", str(problems), "-k", "4", "--batch-size", "8"]
    settings = ["--max-new-tokens", "40", "--threads", "1", "--output", str(output)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "upside.cli", "evaluate", str(model), *arguments, *settings]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_killed_evaluation_goes_on_and_ends_in_the_same_files(folders, tmp_path):
    # OpenRLHF#1322, ms-swift#9935: what is finished is neither lost nor repeated, and the draw is the same
    whole = start(folders[0], tmp_path / "whole")
    cut = start(folders[0], tmp_path / "cut")
    journal = tmp_path / "cut" / PARTIAL
    deadline = time.monotonic() + 120
    while not journal.exists() or journal.read_bytes().count(b"\n") < 4:  # settings and three batches
        assert cut.poll() is None, cut.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    cut.send_signal(signal.SIGKILL)
    cut.communicate()
    assert not (tmp_path / "cut" / FILES[0]).exists()
    kept = journal.read_bytes()
    complete = kept[: kept.rindex(b"\n") + 1]
    batches = complete.count(b"\n") - 1
    assert 3 <= batches < 30
    with journal.open("ab") as file:
        file.write(b'{"set": "arithmetic", "batch": 29, "rows": [{"probl')  # as a kill within a write leaves it
    again = start(folders[0], tmp_path / "cut")
    output, _ = again.communicate(timeout=120)
    assert again.returncode == 0, output
    assert f"going on after {2 * batches} finished problems" in output
    printed, _ = whole.communicate(timeout=120)
    assert whole.returncode == 0, printed
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    assert not journal.exists()


def interrupted(folders, folder: Path, lines: int) -> Path:
    """A journal as a kill leaves it after some batches."""
    from upside.evaluation import command

    calls = []

    def stopping(*arguments):
        if len(calls) == lines:
            raise KeyboardInterrupt
        calls.append(1)
        return respond(*arguments)

    respond, command.respond = command.respond, stopping
    try:
        with pytest.raises(KeyboardInterrupt):
            run_evaluation(folders[0], "arithmetic", **SMALL, output=folder, console=screen()[0])
    finally:
        command.respond = respond
    return folder / PARTIAL


def test_an_unfinished_folder_of_other_settings_is_refused(folders, tmp_path):
    journal = interrupted(folders, tmp_path, 2)
    before = journal.read_bytes()
    assert before.count(b"\n") == 3
    with pytest.raises(ValueError, match="other settings: seed is 0 there, 1 here"):
        run_evaluation(folders[0], "arithmetic", **SMALL, seed=1, output=tmp_path, console=screen()[0])
    assert journal.read_bytes() == before


def test_a_folder_in_which_nothing_was_answered_takes_other_settings(folders, tmp_path):
    interrupted(folders, tmp_path, 0)  # as where the backend did not start
    found = run_evaluation(folders[0], "arithmetic", **SMALL, seed=1, output=tmp_path, console=screen()[0])
    assert found.settings["seed"] == 1


def test_a_damaged_line_in_the_middle_is_not_skipped(folders, tmp_path):
    journal = interrupted(folders, tmp_path, 2)
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(lines[0] + lines[1][:40] + b"\n" + lines[2])
    with pytest.raises(ValueError, match=r"unfinished.jsonl, line 2: damaged .*; remove the file to start anew"):
        run_evaluation(folders[0], "arithmetic", **SMALL, output=tmp_path, console=screen()[0])


@pytest.mark.parametrize("line", ["{}", "[]", "5", "null", '{"settings": 5}', '{"set": "arithmetic", "batch": 0}'])
@pytest.mark.parametrize("number", [0, 1])
def test_a_line_of_another_make_is_refused(folders, tmp_path, line, number):
    journal = interrupted(folders, tmp_path, 2)
    lines = journal.read_text().splitlines()
    lines[number] = line
    journal.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=r"unfinished.jsonl was not written by this version of upside .* start anew"):
        run_evaluation(folders[0], "arithmetic", **SMALL, output=tmp_path, console=screen()[0])


def test_a_full_disk_is_said_and_the_next_run_goes_on(folders, tmp_path):
    resource = pytest.importorskip("resource")
    run_evaluation(folders[0], "arithmetic", **SMALL, output=tmp_path / "whole", console=screen()[0])
    interrupted(folders, tmp_path / "cut", 1)
    journal = tmp_path / "cut" / PARTIAL
    kept = journal.read_bytes()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(kept) + 100, before[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*unfinished.jsonl'"):
            run_evaluation(folders[0], "arithmetic", **SMALL, output=tmp_path / "cut", console=screen()[0])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert journal.read_bytes().startswith(kept)
    run_evaluation(folders[0], "arithmetic", **SMALL, output=tmp_path / "cut", console=screen()[0])
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_two_processes_do_not_write_one_folder(folders, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    journal = interrupted(folders, tmp_path, 1)
    with journal.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="another process is writing"):
            run_evaluation(folders[0], "arithmetic", **SMALL, output=tmp_path, console=screen()[0])


def test_a_baseline_model_and_a_baseline_folder_say_the_same(folders, tmp_path):
    console, out = screen()
    one = run_evaluation(
        folders[0], "arithmetic", **SMALL, baseline=folders[1], output=tmp_path / "one", console=console
    )
    assert "difference" in out.getvalue()
    assert "arithmetic: within noise" in out.getvalue()
    assert (tmp_path / "one" / "baseline" / "evaluation.json").exists()
    run_evaluation(folders[1], "arithmetic", **SMALL, output=tmp_path / "base", console=screen()[0])
    two = run_evaluation(
        folders[0], "arithmetic", **SMALL, baseline=tmp_path / "base", output=tmp_path / "two", console=screen()[0]
    )
    assert one.against() == two.against()
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    with pytest.raises(ValueError, match=r"arithmetic: other settings than the baseline: max_new_tokens is 5, .* 6"):
        run_evaluation(
            folders[0], "arithmetic", **{**SMALL, "max_new_tokens": 5}, baseline=tmp_path / "base", console=console
        )


def test_a_baseline_that_cannot_answer_is_found_before_the_model_does(folders, tmp_path):
    short = tmp_path / "short"
    shutil.copytree(folders[1], short)
    config = json.loads((short / "config.json").read_text())
    (short / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 8}))
    console = screen()[0]
    with pytest.raises(ValueError, match=r"short: arithmetic: the longest prompt has .* positions for 8"):
        run_evaluation(folders[0], "arithmetic", **SMALL, baseline=short, output=tmp_path / "out", console=console)
    assert not (tmp_path / "out").exists()


def test_the_context_limits_responses_and_it_is_said(folders):
    console, out = screen()
    run_evaluation(folders[0], "arithmetic", problems=2, samples=1, max_new_tokens=400, console=console)
    assert "has positions for 256" in out.getvalue()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 0}, "samples must be"),
        ({"temperature": -1.0}, "temperature must be"),
        ({"top_p": 0.0}, "top_p must be"),
        ({"top_k": -1}, "top_k must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"samples": 4, "pass_at": [1, 8]}, r"pass@8 needs at least 8 responses a problem, got samples=4; draw more"),
        ({"pass_at": [0]}, "pass@0 needs"),
        ({"sampling": "aapo", "pass_at": [2]}, "pass@2 needs at least 2 responses a problem, got samples=1"),
        ({"sampling": "cannon"}, "unknown sampling preset 'cannon': did you mean 'canon'"),
        ({"on_failure": "drop"}, "on_failure must be one of exclude, wrong"),
        ({"backend": "vlm"}, "backend must be one of auto, .*did you mean 'vllm'"),
        ({"data": ["arithmetic", "arithmetic"]}, "two sets are called"),
        ({"options": {"knights.x": 1}}, "there is no set 'knights'"),
    ],
)
def test_wrong_settings_are_refused_before_a_model_is_looked_for(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        run_evaluation(tmp_path / "no_such_model", **{"data": "arithmetic", "problems": 1, **options})


def test_no_model(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a model folder"):
        run_evaluation(tmp_path, "arithmetic", problems=1, console=screen()[0])
