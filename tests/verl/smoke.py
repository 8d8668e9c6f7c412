"""A small real verl run on the CPU: Ray, two FSDP2 workers over gloo, the bundled reasoner, arithmetic problems."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil

from upside.models import bundled
from upside.tasks import load_task

HERE = Path(__file__).parent
PROMPTS, GROUP = 8, 4

CONFIG = {
    "data.train_batch_size": PROMPTS,
    "data.max_prompt_length": 48,
    "data.max_response_length": 48,
    "data.dataloader_num_workers": 0,
    "actor_rollout_ref.model.path": str(bundled()),
    "actor_rollout_ref.model.use_remove_padding": False,
    "+actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
    "actor_rollout_ref.actor.strategy": "fsdp2",
    "actor_rollout_ref.actor.ppo_mini_batch_size": PROMPTS,
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 16,
    "actor_rollout_ref.actor.use_kl_loss": False,
    "actor_rollout_ref.actor.fsdp_config.model_dtype": "fp32",
    "actor_rollout_ref.actor.use_torch_compile": False,
    "actor_rollout_ref.actor.optim.lr": 1e-4,
    "actor_rollout_ref.rollout.name": "upside_cpu",
    "actor_rollout_ref.rollout.n": GROUP,
    "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 16,
    "actor_rollout_ref.rollout.agent.num_workers": 1,
    "actor_rollout_ref.rollout.free_cache_engine": False,
    "algorithm.use_kl_in_reward": False,
    "reward.custom_reward_function.path": str(HERE / "smoke_reward.py"),
    "reward.custom_reward_function.name": "compute_score",
    "reward.num_workers": 1,
    "trainer.device": "cpu",
    "trainer.n_gpus_per_node": 2,
    "trainer.nnodes": 1,
    "trainer.logger": "[console,file]",
    "trainer.val_before_train": False,
    "trainer.test_freq": -1,
    "trainer.total_epochs": 10,
    "trainer.save_freq": -1,
    "trainer.resume_mode": "auto",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,  # a process of 400 MB each
    "+ray_kwargs.ray_init.num_gpus": 2,
    "ray_kwargs.ray_init.num_cpus": 24,
    "+ray_kwargs.ray_init.include_dashboard": False,
}


def documented():
    """The keys that docs/integrations.md tells a verl user to change, as words of a shell."""
    text = (HERE.parents[1] / "docs" / "integrations.md").read_text(encoding="utf-8")
    lines = text.partition("## In a verl run of yours")[2].partition("```diff\n")[2].partition("```")[0].splitlines()
    return [word for line in lines if line.startswith("+ ") for word in shlex.split(line[2:])]


def write_data(folder):
    """train.parquet and val.parquet in verl's layout."""
    task = load_task("arithmetic")
    for split, count in (("train", 64), ("test", 8)):
        rows = [
            {
                "data_source": "arithmetic",
                "prompt": [{"role": "user", "content": problem.prompt}],
                "ability": "reasoning",
                "reward_model": {"style": "rule", "ground_truth": problem.answer},
                "extra_info": {"index": index},
                "reference_rewards": [0.0, 1.0, 0.0, 1.0],  # one for each response of a group
            }
            for index, problem in enumerate(task.problems(split, count, seed=0))
        ]
        pd.DataFrame(rows).to_parquet(folder / f"{'train' if split == 'train' else 'val'}.parquet")


class Run:
    """One `verl.trainer.main_ppo` process, its log and its metrics."""

    def __init__(self, folder, spec, **changes):
        config = {
            **CONFIG,
            "data.train_files": folder / "train.parquet",
            "data.val_files": folder / "val.parquet",
            "trainer.default_local_dir": folder / "checkpoints",
            **dict(word.split("=", 1) for word in documented()),
            "+algorithm.upside.spec": f"'{spec}'",
            **changes,
        }
        number = len(list(folder.glob("run*.log")))
        self.log, self.metrics = folder / f"run{number}.log", folder / f"run{number}.jsonl"
        environment = {
            **os.environ,
            "VERL_PLATFORM": "cpu",
            "VERL_FILE_LOGGER_PATH": str(self.metrics),
            "VERL_USE_EXTERNAL_MODULES": "smoke_stage",
            "PYTHONPATH": str(HERE),
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_DEDUP_LOGS": "0",
            "HYDRA_FULL_ERROR": "1",
        }
        command = [sys.executable, "-m", "verl.trainer.main_ppo", *(f"{key}={value}" for key, value in config.items())]
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=self.log.open("w"), stderr=subprocess.STDOUT
        )

    def wait(self, seconds=300):
        """Until it ends. AssertionError with the log's end when it fails."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        assert code == 0, self.log.read_text()[-6000:]
        return self

    def until(self, path, seconds=300):
        """Until that file exists."""
        end = time.monotonic() + seconds
        while not path.exists():
            alive = self.process.poll() is None
            assert alive, self.log.read_text()[-6000:]
            assert time.monotonic() < end, self.log.read_text()[-6000:]
            time.sleep(0.2)
        return self

    def kill(self):
        """SIGKILL to the driver and everything it started: what a lost machine looks like."""
        processes = [self.process_tree, *self.process_tree.children(recursive=True)]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(processes, timeout=20)
        self.process.wait()

    @property
    def process_tree(self):
        return psutil.Process(self.process.pid)

    @property
    def steps(self):
        """What verl logged: step -> metrics."""
        return {row["step"]: row["data"] for row in map(json.loads, self.metrics.read_text().splitlines())}
