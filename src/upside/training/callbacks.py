"""What happens beside the optimisation: metrics and rollouts to disk, the console, stopping on a signal."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

import upside
from upside.analysis.doctor.live import Live
from upside.engines.pictures import images_in
from upside.engines.scored import ScoredRollouts
from upside.tasks.pictures import MARK
from upside.training.console import Console, printable
from upside.training.folder import RunFolder
from upside.training.outcomes import NAMES, UNJUDGED, complaint
from upside.training.record import Step
from upside.training.world import size

ECHO = 10.0
TRAINER_METRICS = {
    "entropy": "entropy",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "lr",
    "kl": "kl",
    "clip_ratio/region_mean": "clip_share",
}


class Recorder(TrainerCallback):
    """Writes one line of metrics.jsonl and one Parquet file per step, and shows the step on the console.

    A step is one batch of responses, which may take several optimiser steps (`updates`): their losses are averaged.
    doctor: looks at every step that is written.
    """

    def __init__(
        self,
        folder: RunFolder,
        console: Console,
        estimator: upside.Estimator,
        updates: int,
        doctor: Live | None = None,
    ) -> None:
        self.folder, self.console, self.estimator, self.updates = folder, console, estimator, updates
        self.doctor = doctor
        self.phases: dict[str, float] = {}  # seconds of the step's phases, filled by whoever measures them
        self._rollouts: ScoredRollouts | None = None
        self._logs: list[dict[str, float]] = []
        self._started = time.perf_counter()
        self._complained = False

    def keep(self, rollouts: ScoredRollouts) -> None:
        """`on_rollouts` of the trainer."""
        self._rollouts = rollouts

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        self._started = time.perf_counter()

    def leave_out(self, seconds: float) -> None:
        """Do not count these seconds (an evaluation between two steps) as the step's."""
        self._started += seconds

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **kwargs: Any
    ) -> None:
        if not logs or "loss" not in logs:
            return
        self._logs.append(logs)
        if len(self._logs) < self.updates or self._rollouts is None:
            return
        now = time.perf_counter()
        step = self._step(self._rollouts)
        row = step.metrics(self._measured(), self.phases, now - self._started)
        table = self.folder.write_rollouts(row["step"], step.columns(self.estimator))
        self.folder.log(row)
        self.console.step(row)
        self._complain(row["step"], self._rollouts)
        if self.doctor is not None:
            self.doctor.step(row, table)
        self._started, self._rollouts, self._logs = now, None, []
        self.phases.clear()

    def _step(self, rollouts: ScoredRollouts) -> Step:
        return Step(
            rollouts.batch,
            rollouts.advantages,
            [_text(prompt) for prompt in rollouts.prompts],
            [_text(completion) for completion in rollouts.completions],
            rollouts.correct,
            rollouts.extras.get("outcome") or None,
            self._pictures(rollouts.prompts),
        )

    def _pictures(self, prompts: Sequence[Any]) -> list[list[str]] | None:
        """Keeps the pictures of the prompts; their files, None where there are none."""
        shown = [images_in(prompt) for prompt in prompts]
        if not any(shown):
            return None
        files: list[list[str]] = []
        for row, images in enumerate(shown):  # the responses to a prompt stand together
            files.append(files[-1] if row and images == shown[row - 1] else self.folder.keep_pictures(images))
        return files

    def _complain(self, step: int, rollouts: ScoredRollouts) -> None:
        """Say once that a judgement ended in a timeout or error; from then on the steps' lines show the shares."""
        outcomes = rollouts.extras.get("outcome", [])
        text = complaint({name: outcomes.count(name) for name in NAMES}, len(outcomes))
        if text is None or self._complained:
            return
        self._complained = True
        row = next(i for i, outcome in enumerate(outcomes) if outcome in UNJUDGED)
        response = printable(_text(rollouts.completions[row]), 200).replace("\n", " ")
        valid = "left out of the step" if not bool(rollouts.batch.valid[row]) else "scored by the verifier's option"
        self.console.note(f"step {step}: {text}; first: {response!r}, {valid}")

    def _measured(self) -> dict[str, float]:
        """What the trainer logged, averaged over the optimiser steps of this step."""
        logged = {key: [log[key] for log in self._logs if log.get(key) is not None] for key in self._logs[-1]}
        mean = {key: sum(values) / len(values) for key, values in logged.items() if values}
        found = {name: mean[key] for key, name in TRAINER_METRICS.items() if key in mean}
        if self._rollouts is not None and self._rollouts.reference_tokens is not None:
            found["reference_tokens"] = self._rollouts.reference_tokens
        return found | {key: value for key, value in mean.items() if key.startswith("reward_part/")}


def _text(value: Any) -> str:
    """Plain text of a prompt or completion: a string, or what messages say, `<image>` for a picture."""
    return value if isinstance(value, str) else "\n".join(_content(message["content"]) for message in value)


def _content(content: Any) -> str:
    if not isinstance(content, list):
        return str(content)
    return "".join(MARK if block["type"] == "image" else str(block.get("text")) for block in content)


class Periodic(TrainerCallback):
    """Calls `action(step)` after every `every`-th step of `updates` optimiser steps, except the last; when the step is
    logged, for an action that fails shall not cost what the step has given. A resumed run calls it for the step that it
    goes on from, too."""

    def __init__(self, every: int, updates: int, action: Callable[[int], None]) -> None:
        self.every, self.updates, self.action = every, updates, action

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **kwargs: Any
    ) -> None:
        if logs and "loss" in logs:
            self.on_train_begin(args, state, control)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        step, rest = divmod(state.global_step, self.updates)
        if rest == 0 and step and step % self.every == 0 and state.global_step < state.max_steps:
            self.action(step)


class StopOnSignal(TrainerCallback):
    """SIGINT (Ctrl-C) or SIGTERM: finish the step, save a checkpoint, stop. A second Ctrl-C stops at once; under a
    launcher only after ECHO seconds, since one Ctrl-C reaches a process twice there, the second time from the launcher.

    Use as a context manager around the training; `stopped` names the signal afterwards. `ask` stops without one.
    """

    def __init__(self, updates: int, tell: Callable[[str], None]) -> None:
        self.updates, self.tell = updates, tell
        self.stopped: str | None = None
        self._told_at = 0.0
        self._before: dict[int, Any] = {}
        self._random: torch.Tensor | None = None  # of the CPU, before the step under way or next

    def __enter__(self) -> StopOnSignal:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.stopped is not None:
            if size() > 1 and time.monotonic() - self._told_at < ECHO:
                return
            raise KeyboardInterrupt
        self._told_at = time.monotonic()
        self.stopped = signal.Signals(number).name
        self.tell(f"{self.stopped}: finishing this step, then saving a checkpoint (again to stop at once)")

    def ask(self, name: str) -> None:
        """Stop as at a signal; `stopped` is then this name."""
        self.stopped = self.stopped or name

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        self._random = torch.get_rng_state()

    def save_last_step(self, trainer: Trainer) -> None:
        """Save a checkpoint as of the last finished step, after a step that could not be read, sampled or scored.

        Every process must call it: saving waits for all.
        """
        if trainer.state.global_step > 0 and self._random is not None:
            torch.set_rng_state(self._random)
            trainer._save_checkpoint(trainer.model, trial=None)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._random = torch.get_rng_state()
        if state.global_step % self.updates == 0 and self._agreed(args):
            control.should_save = True
            control.should_training_stop = True

    def _agreed(self, args: TrainingArguments) -> bool:
        """Whether any process was told to stop: all of them stop after the same step."""
        if args.world_size > 1:
            told = torch.tensor(int(self.stopped is not None), device=args.device)
            torch.distributed.all_reduce(told, op=torch.distributed.ReduceOp.MAX)
            if bool(told) and self.stopped is None:
                self.stopped = "a signal to another process"
        return self.stopped is not None
