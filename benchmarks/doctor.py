"""Which diagnosis finds which fault: `upside doctor` beside rlprobe, rl-doctor and rlvr-audit, on fabricated runs.

    python -m venv peers && peers/bin/pip install rlprobe==0.1.0 rldoctor==0.2.0 rlvr-audit==0.1.0
    python benchmarks/doctor.py --peers peers > table.md

Three sets of runs: those of `rlprobe synth`, those of rl-doctor's simulator, and logs of rollouts with faults of the
estimator (tests/analysis/doctor). Every tool reads every run: what one logs is written anew under the names of another.
A cell holds what a tool warned of; in bold, what names the fault.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from upside.analysis import read_log
from upside.analysis.doctor import diagnose
from upside.analysis.doctor.view import View
from upside.analysis.logs import Log

TOOLS = ("upside doctor", "rlprobe", "rl-doctor")
NAMED: dict[str, tuple[set[str], ...]] = {  # fault -> what names it, by tool
    "kl_blowup": ({"kl_blowup"}, {"KL_BLOWUP"}, {"kl_drift"}),
    "entropy_collapse": ({"entropy_collapse"}, {"ENTROPY_COLLAPSE"}, {"entropy_collapse"}),
    "reward_hack_length": ({"length_reward"}, {"REWARD_HACK_LENGTH"}, {"length_pathology"}),
    "format_gaming": ({"format_only"}, {"FORMAT_GAMING"}, {"reward_composition"}),
    "clip_saturation": ({"clip_share"}, {"CLIP_SATURATION"}, {"clip_saturation"}),
    "degenerate_groups": ({"dead_groups"}, {"DEGENERATE_GROUPS"}, {"advantage_collapse"}),
    "adv_collapse": ({"vanishing_advantages"}, {"ADV_COLLAPSE"}, {"advantage_collapse"}),
    "value_divergence": ({"value_function"}, {"VALUE_DIVERGENCE"}, set()),
    "grad_pathology": ({"gradient_spikes", "not_finite"}, {"GRAD_PATHOLOGY"}, {"gradient_pathology"}),
    "truncation_starve": ({"truncation"}, {"TRUNCATION_STARVE"}, {"length_pathology"}),
    "repetition_spiral": ({"repetition"}, {"REPETITION_SPIRAL"}, set()),
    "reward_std_death": ({"reward_spread", "dead_groups"}, {"REWARD_STD_DEATH", "DEGENERATE_GROUPS"},
                         {"advantage_collapse"}),
    "ref_drift_asymmetry": (set(), {"REF_POLICY_DRIFT_ASYMMETRY"}, set()),
    "throughput_rot": ({"slow_steps"}, {"THROUGHPUT_ROT"}, set()),
    "saturated_groups": ({"dead_groups", "too_easy_groups"}, {"DEGENERATE_GROUPS"}, {"advantage_collapse"}),
    "too_hard": ({"dead_groups", "too_hard_groups"}, {"DEGENERATE_GROUPS"}, {"advantage_collapse"}),
    "reward_hacking": ({"held_out_falls", "held_out_flat"}, set(), {"reward_hacking"}),
    "length_hacking": ({"length_reward", "length_runaway", "held_out_flat"}, {"REWARD_HACK_LENGTH"},
                       {"length_pathology", "reward_hacking"}),
    "truncation": ({"truncation"}, {"TRUNCATION_STARVE"}, {"length_pathology"}),
    "grad_spikes": ({"gradient_spikes"}, {"GRAD_PATHOLOGY"}, {"gradient_pathology"}),
    "plateau": ({"reward_plateau", "reward_not_moving"}, set(), {"plateau"}),
    "too_hard_groups": ({"too_hard_groups"}, {"DEGENERATE_GROUPS"}, {"advantage_collapse"}, {"STARVED: 97 of 97"}),
    "duplicate_responses": ({"duplicate_responses"}, set(), set(), {"DEPENDENCE_DEAD: 97 of 97"}),
    "same_response": ({"same_response"}, set(), set(), {"DEPENDENCE_DEAD: 97 of 97"}),
    "format_domination": ({"format_only"}, {"FORMAT_GAMING"}, {"reward_composition"}),
}  # fmt: skip
OURS = (
    "singleton_groups", "mixed_groups", "merged_groups", "split_groups", "duplicate_responses", "same_response",
    "too_hard_groups", "constant_group_signal", "advantages_differ", "advantage_outliers", "concentrated_signal",
    "mean_weight", "adora_constant", "canon_tied", "margin_saturation", "reference_missing", "equal_lengths",
    "train_eval_mismatch", "sudden_reset",
)  # fmt: skip
TO_RLPROBE = {
    "reward": "reward_mean", "reward_std": "reward_std", "kl": "kl_mean", "entropy": "entropy_mean",
    "clip_share": "clip_fraction", "constant_group_share": "zero_variance_group_frac", "lr": "lr", "loss": "loss",
    "zero_advantage_share": "adv_zero_frac", "advantage_std": "adv_std", "grad_norm": "grad_norm",
    "length": "completion_len_mean", "truncated_share": "truncation_rate", "seconds": "step_time_s",
    "repeated_share": "repetition_rate", "explained_variance": "value_explained_variance",
}  # fmt: skip
TO_RLDOCTOR = {
    "reward": "reward", "reward_std": "reward_std", "kl": "kl", "entropy": "entropy", "loss": "policy_loss",
    "clip_share": "clip_ratio/region_mean", "constant_group_share": "frac_reward_zero_std", "lr": "learning_rate",
    "advantage_std": "advantage_std", "grad_norm": "grad_norm", "length": "completions/mean_length",
    "truncated_share": "completions/clipped_ratio", "seconds": "step_time", "held_out_accuracy": "eval/accuracy",
    "explained_variance": "value_explained_var",
}  # fmt: skip
RECORD = """
import json, sys
from rlprobe.schemas import RunManifest, SampleRecord, StepRecord
from rlprobe.storage import RunWriter
rows, samples = json.load(open(sys.argv[1]))
manifest = RunManifest(run_id="x", created_at="2026-01-01T00:00:00+00:00", algorithm="grpo", model_name="x")
with RunWriter(sys.argv[2], manifest) as writer:
    for row in rows:
        writer.add_step(StepRecord(timestamp=float(row["step"]), **row))
    writer.add_samples([SampleRecord(**sample) for sample in samples])
"""
SIMULATE = """
import json, sys
from rl_doctor.simulate import SCENARIOS, simulate
for name in SCENARIOS:
    for seed in range(int(sys.argv[2])):
        with open(f"{sys.argv[1]}/{name}-{seed}.jsonl", "w") as file:
            file.writelines(json.dumps(row) + "\\n" for row in simulate(name, seed=seed)[0])
"""


class Peers:
    """The other tools, in an environment of their own."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.bin, self.scratch = folder / "bin", scratch

    def call(self, program: str, *arguments: object) -> str:
        return subprocess.run([self.bin / program, *map(str, arguments)], capture_output=True, text=True).stdout

    def rlprobe(self, recording: Path) -> set[str]:
        return {found["signature_id"] for found in json.loads(self.call("rlprobe", "doctor", recording, "--json"))}

    def rldoctor(self, file: Path) -> set[str]:
        found = json.loads(self.call("rl-doctor", "diagnose", file, "-f", "json"))["findings"]
        return {item["detector"] for item in found if item["severity"] in ("WARNING", "CRITICAL")}

    def rlvr_audit(self, log: Log) -> set[str]:
        """Verdicts other than HEALTHY, with how many prompts have it. A prompt's line holds its groups of all steps."""
        groups, prompts, reward = log.codes("group"), log.codes("prompt"), log.numbers("reward")
        texts, lines = log.table["response"].to_pylist(), {}
        for row in groups.argsort(kind="stable").tolist():
            prompt = int(prompts[(groups == groups[row]).argmax()])
            line = lines.setdefault(prompt, {"prompt_id": str(prompt), "rewards": [], "trajectory_hashes": [],
                                             "prompt_hashes": []})  # fmt: skip
            line["rewards"].append(reward[row])
            line["trajectory_hashes"].append(texts[row])
            line["prompt_hashes"].append(str(prompts[row]))
        said = self.call("rlvr-audit", "inspect", "--file", write(self.scratch / "groups.jsonl", lines.values()))
        if not said:
            return {"refused"}
        verdicts = json.loads(said)["verdict_histogram"]
        return {f"{name}: {count} of {len(lines)}" for name, count in verdicts.items() if name != "HEALTHY"}

    def record(self, rows: list[dict[str, Any]], samples: list[dict[str, Any]]) -> Path:
        """A recording for rlprobe of a run under our names."""
        named = [renamed(row, TO_RLPROBE) | {"reward_components": parts(row)} for row in rows]
        file, folder = self.scratch / "run.json", Path(tempfile.mkdtemp(dir=self.scratch))
        file.write_text(json.dumps([named, samples]))
        self.call("python", "-c", RECORD, file, folder)
        return folder

    def metrics(self, rows: list[dict[str, Any]]) -> Path:
        """A JSONL file for rl-doctor of a run under our names."""
        terms = [{f"rewards/{name}/mean": value for name, value in parts(row).items()} for row in rows]
        named = [renamed(row, TO_RLDOCTOR) | term for row, term in zip(rows, terms, strict=True)]
        return write(self.scratch / "run.jsonl", named)


def write(file: Path, rows: Iterable[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def parts(row: dict[str, Any]) -> dict[str, float]:
    return {key.removeprefix("reward_part/"): value for key, value in row.items() if key.startswith("reward_part/")}


def renamed(row: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    known = {theirs: row[ours] for ours, theirs in names.items() if row.get(ours) is not None}
    return {"step": row["step"], **known}


def ours(log: Log) -> set[str]:
    return {found["check"] for found in diagnose(log).findings if found["level"] in ("warn", "fail")}


def measured(log: Log) -> list[dict[str, Any]]:
    """The steps of a log with all numbers that anything here reads, whether logged or measured on the rollouts."""
    view, steps = View(log), {}
    for name in dict.fromkeys([*TO_RLPROBE, *TO_RLDOCTOR, *view.terms]):
        series = view.known(name)
        for step, value in zip(series.steps, series.values, strict=True) if series is not None else ():
            steps.setdefault(int(step), {"step": int(step)})[name] = float(value)
    return [steps[step] for step in sorted(steps)]


def samples(log: Log) -> list[dict[str, Any]]:
    """Every response, as rlprobe records them."""
    if not len(log):
        return []
    names = {"step": "step", "group": "group_id", "prompt": "prompt_id", "prompt_text": "prompt_text",
             "response": "completion_text", "reward": "reward_total", "advantage": "advantage",
             "length": "completion_len", "truncated": "truncated"}  # fmt: skip
    rows = log.table.select(list(names)).rename_columns(list(names.values())).to_pylist()
    return [
        {**row, "sample_id": str(at), "group_id": str(row["group_id"]), "prompt_id": str(row["prompt_id"]),
         "completion_len": int(row["completion_len"]), "capture_reason": "random"}
        for at, row in enumerate(rows)
    ]  # fmt: skip


def table(title: str, found: dict[str, list[tuple[set[str], ...]]], tools: tuple[str, ...]) -> None:
    """found: fault -> for each seed what each tool said."""
    print(f"\n### {title}\n\n| run | {' | '.join(tools)} |\n|{'---|' * (len(tools) + 1)}")
    hits = [0] * len(tools)
    for fault, seeds in found.items():
        cells = []
        for at in range(len(tools)):
            said = Counter(name for seed in seeds for name in seed[at])
            names = NAMED.get(fault, ({fault}, set(), set()))
            right = names[at] if at < len(names) else set()
            hits[at] += sum(bool(seed[at] & right) for seed in seeds)
            cells.append(", ".join(_cell(name, count, len(seeds), name in right) for name, count in said.most_common()))
        print(f"| {fault} | {' | '.join(cell or '–' for cell in cells)} |")
    sick = sum(len(seeds) for fault, seeds in found.items() if fault != "healthy")
    print(f"| found, of {sick} | {' | '.join(map(str, hits))} |")


def _cell(name: str, count: int, seeds: int, right: bool) -> str:
    text = f"**{name}**" if right else name
    return text if count == seeds else f"{text} ({count} of {seeds})"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", type=Path, required=True, help="virtual environment with the other tools")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        peers = Peers(arguments.peers.absolute(), scratch)
        faults = [*list(NAMED)[:14], "healthy"]
        found: dict[str, list[tuple[set[str], ...]]] = {}
        for fault in faults:
            for seed in range(arguments.seeds):
                run = scratch / f"{fault}-{seed}"
                injected = () if fault == "healthy" else ("--pathology", fault)
                peers.call("rlprobe", "synth", run, "--seed", seed, *injected)
                log = read_log(run)
                said = (ours(log), peers.rlprobe(run), peers.rldoctor(peers.metrics(log.metrics)))
                found.setdefault(fault, []).append(said)
        table(f"rlprobe's runs, {arguments.seeds} seeds", found, TOOLS)

        peers.call("python", "-c", SIMULATE, scratch, arguments.seeds)
        found = {}
        for file in sorted(scratch.glob("*-*.jsonl")):
            log = read_log(file)
            said = (ours(log), peers.rlprobe(peers.record(log.metrics, [])), peers.rldoctor(file))
            found.setdefault(file.stem.rpartition("-")[0], []).append(said)
        table(f"rl-doctor's runs, {arguments.seeds} seeds", found, TOOLS)

        checks = _tests()
        found = {}
        for fault in (*OURS, "healthy"):
            log = checks.healthy() if fault == "healthy" else checks.FAULTS[fault][1]()
            rows = measured(log)
            said = [ours(log), peers.rlprobe(peers.record(rows, samples(log))), peers.rldoctor(peers.metrics(rows))]
            said.append(peers.rlvr_audit(log) if len(log) else set())
            found[fault] = [tuple(said)]
        table("Rollouts with faults of the estimator", found, (*TOOLS, "rlvr-audit (prompts by verdict)"))


def _tests() -> Any:
    """The faulty logs that the tests use."""
    path = Path(__file__).parents[1] / "tests" / "analysis" / "doctor" / "test_checks.py"
    spec = importlib.util.spec_from_file_location("test_checks", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
