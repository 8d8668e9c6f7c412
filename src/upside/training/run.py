"""`upside train`: from a recipe to a run folder."""

from __future__ import annotations

import dataclasses
import functools
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # rollout_func, the door for our sampler

from transformers import PreTrainedModel, PrinterCallback
from transformers.utils import logging as transformers_logging
from trl import GRPOConfig

import upside
from upside.analysis.doctor.live import Live
from upside.engines import sampler
from upside.engines.calls import AgreedRewardError
from upside.engines.sharded import gathered, is_sharded, whole_state, zero3
from upside.engines.trl import AdvantageTrainer
from upside.evaluation.generate import end_ids
from upside.rewards import RewardError
from upside.tasks import Problem
from upside.tasks.pictures import PictureError
from upside.tasks.prompts import Reader, tokenizer_of
from upside.training import reference, setup, world
from upside.training.callbacks import Periodic, Recorder, StopOnSignal
from upside.training.console import Console
from upside.training.folder import Halted, Interrupted, RunFolder, RunFolderError, resume_command
from upside.training.heldout import add_gains, facts, measure
from upside.training.outcomes import complaint, totals, unjudged_example
from upside.training.outlook import cautions
from upside.training.plot import draw
from upside.training.prompts import in_order, prompt_rows
from upside.training.recipe import Recipe
from upside.training.scoring import TaskReward
from upside.training.threads import set_threads


class Run:
    """One training run. `execute` does everything; the parts exist to be read."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.main = world.rank() == 0
        self.console = Console(quiet=not self.main)
        self.estimator = upside.estimator(recipe.estimator)
        self.seconds: dict[str, float] = {}
        self.cpu_seconds: dict[str, float] = {}
        self.problems: setup.Problems
        self.folder: RunFolder

    def execute(self) -> dict[str, Any]:
        """Train, evaluate, write the run folder; returns its summary.

        Raises Interrupted after SIGINT or SIGTERM, Halted where the doctor stops the run (doctor=halt), and ValueError
        subclasses for a recipe, task or folder that cannot be used, or a reward function that raises: what was done
        until then is kept, and `resume=true` continues.
        """
        try:
            return self._execute()
        except KeyboardInterrupt:
            if not hasattr(self, "folder"):
                raise
            raise Interrupted("SIGINT", resume_command(self.folder)) from None
        except RuntimeError as error:
            if not world.is_lost(error):
                raise
            raise world.ProcessLost(self._where_to_go_on()) from error

    def _execute(self) -> dict[str, Any]:
        warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()
        world.check(self.recipe)
        threads = set_threads(self.recipe.threads)
        config = setup.trainer_config(self.recipe, self.recipe.folder / "checkpoints")
        with self._phase("load"):
            model, tokenizer = setup.load_model(self.recipe)
            self.own_ends = model.generation_config.eos_token_id
            self.problems = setup.load_problems(self.recipe, tokenizer)
            self.sampler = setup.sampler_for(self.recipe, model, self.problems)
            self.reference = reference.for_run(self.recipe, self.problems.train, tokenizer)
            self.rewards = setup.make_rewards(self.recipe, self.problems.task)
        self.gate = world.Gate(config.world_size)
        self.folder = self._open_folder()
        self._announce(model, threads)
        before = self._evaluate("before", model, tokenizer)
        with self._phase("train"):
            model = self._train(model, tokenizer, config)
        after = self._evaluate("after", model, tokenizer)
        return self._finish(before, after) if self.main else {}

    def _open_folder(self) -> RunFolder:
        """The main process makes or reopens the run folder; where that is refused, all raise."""
        failure: RunFolderError | None = None
        if self.main:
            try:
                self.folder = RunFolder.open_for(self.recipe)
            except RunFolderError as error:
                failure = error
        refused = self.gate.told(str(failure) if failure else None)
        if refused is not None:
            raise failure or RunFolderError(refused)
        return RunFolder(self.recipe.folder)

    def _where_to_go_on(self) -> str:
        checkpoint = self.folder.last_checkpoint() if hasattr(self, "folder") else None
        if checkpoint is None:
            return "no checkpoint had been saved; start anew with another output=FOLDER"
        step = self.folder.steps_done(self.recipe)
        return f"the last checkpoint is of step {step}; continue with: {resume_command(self.folder)}"

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        started, cpu = time.perf_counter(), time.process_time()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
        self.cpu_seconds[name] = self.cpu_seconds.get(name, 0.0) + time.process_time() - cpu

    def _announce(self, model: PreTrainedModel, threads: int) -> None:
        recipe, problems = self.recipe, self.problems
        size = sum(p.numel() for p in model.parameters())
        self.console.note(f"model {recipe.model} ({size / 1e6:.2f}M parameters), estimator {self.estimator}")
        self.console.note(
            f"task {recipe.task}: {len(problems.train)} training problems, {len(problems.held_out)} held out; "
            f"{recipe.steps} steps of {recipe.prompts_per_step} prompts x {recipe.group_size} responses; "
            f"{threads} thread{'s' if threads > 1 else ''}; output {self.folder.path}"
        )
        for note in problems.notes(recipe.max_prompt_tokens):
            self.console.note(note)
        if self.sampler != recipe.sampler:
            kind = model.config.model_type
            self.console.note(f"sampler: transformers; upside's own does not show pictures to models of type {kind}")
        for caution in cautions(recipe):
            self.console.note(f"caution: {caution}")

    # ---- evaluation ---------------------------------------------------------------------------------------------

    def _evaluate(self, when: str, model: PreTrainedModel, tokenizer: Reader) -> dict[str, Any]:
        """Held-out results, kept in summary.json so that a resumed run does not repeat them."""
        results = self._evaluated(when, model, tokenizer) if self.problems.held_out and self.main else {}
        self.gate.wait()
        return results

    def _evaluated(self, when: str, model: PreTrainedModel, tokenizer: Reader) -> dict[str, Any]:
        known = self.folder.summary().get(when)
        if when == "before" and known:
            return known
        with self._phase(f"evaluate_{when}"):
            found = measure(model, tokenizer, self.problems.task, self.problems.held_out, self.recipe, self.sampler)
        self.folder.log_held_out(0 if when == "before" else self.recipe.steps, found)
        results: dict[str, Any] = {mode: facts(evaluation) for mode, evaluation in found.items()}
        if when == "after":
            add_gains(results, self.folder.held_out())
        for mode, result in list(results.items()):
            text = f"held-out accuracy {when}, {mode}: {result['accuracy']:.1%} of {result['n']} problems"
            self.console.note(text)
        first = next(iter(found.values()))
        results["accuracy"] = first.accuracy.value  # greedy, where the recipe asks for it
        results["responses"] = [first.by_problem[index][0].response for index in easy_to_hard(self.problems.held_out)]
        self.folder.update_summary(**{when: results})
        return results

    # ---- training -----------------------------------------------------------------------------------------------

    def _train(self, model: PreTrainedModel, tokenizer: Reader, config: GRPOConfig) -> PreTrainedModel:
        recipe = self.recipe
        checkpoint = self.folder.last_checkpoint() if recipe.resume else None
        done = self.folder.steps_done(recipe) if recipe.resume else 0
        if self.main:
            self.folder.forget_after(done)
        if done >= recipe.steps:
            model, _ = setup.load_model(recipe, checkpoint)
            if self.main and not zero3():  # which would load a part of the model
                self._save(model, tokenizer)
            return model
        stop = StopOnSignal(recipe.updates, self.console.note)
        doctor = self._doctor(stop) if self.main else None
        recorder = Recorder(self.folder, self.console, self.estimator, recipe.updates, doctor)
        trainer = self._trainer(model, tokenizer, config, recorder, stop)
        self.console.start(recipe.steps, done)
        try:
            with stop:
                trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        except (RewardError, PictureError) as error:
            if world.size() == 1 or isinstance(error, AgreedRewardError):
                stop.save_last_step(trainer)
            kind = PictureError if isinstance(error, PictureError) else RewardError
            raise kind(f"{error}; once it is mended, continue with: {resume_command(self.folder)}") from error
        finally:
            self.console.stop()
        if stop.stopped is not None and trainer.state.global_step < config.max_steps:
            if recipe.doctor == "halt" and doctor is not None and doctor.failed is not None:
                raise Halted(doctor.failed, resume_command(self.folder))
            raise Interrupted(stop.stopped, resume_command(self.folder))
        trained = trainer.accelerator.unwrap_model(trainer.model)
        if not is_sharded(trainer):
            if self.main:
                self._save(trained, tokenizer)
            return trained
        state = whole_state(trainer)
        if self.main:
            self._save(trained, tokenizer, state)
        self.gate.wait()
        return setup.load_model(recipe, self.folder.model)[0]

    def _doctor(self, stop: StopOnSignal) -> Live | None:
        """What looks at the run as it goes; None where the recipe wants none."""
        if self.recipe.doctor == "off":
            return None
        halt = functools.partial(stop.ask, "the doctor") if self.recipe.doctor == "halt" else lambda: None
        return Live(self.folder, dataclasses.asdict(self.recipe), self.console.note, halt)

    def _trainer(
        self,
        model: PreTrainedModel,
        tokenizer: Reader,
        config: GRPOConfig,
        recorder: Recorder,
        stop: StopOnSignal,
    ) -> AdvantageTrainer:
        recipe, problems = self.recipe, self.problems
        order = in_order(recipe.steps * recipe.prompts_per_step, len(problems.train), recipe.seed)
        text_tokenizer = tokenizer_of(tokenizer)
        ends = end_ids(model, text_tokenizer, problems.task)
        model.generation_config.eos_token_id = ends  # where TRL and its samplers read them
        reward = TaskReward(self.rewards, problems.train, {*ends, text_tokenizer.pad_token_id}, recipe.group_size)
        trainer = AdvantageTrainer(
            model=model,
            reward_funcs=[reward],
            args=config,
            train_dataset=prompt_rows(problems.train, order, tokenizer),
            processing_class=tokenizer,
            estimator=self.estimator,
            correctness=reward.correct,
            on_rollouts=recorder.keep,
            length_buckets=recipe.length_buckets,
            skip_zero_advantage=recipe.skip_zero_advantage,
            reference_table=self.reference,
            reference_missing=recipe.reference_missing,
            rollout_func=_timed(sampler.rollout, recorder.phases, "rollout") if self.sampler == "upside" else None,
            callbacks=[recorder, stop],
        )
        trainer.remove_callback(PrinterCallback)
        if recipe.eval.every and problems.held_out:
            done = self.folder.steps_done(recipe) if recipe.resume else 0
            known = [row["step"] for row in self.folder.summary().get("during", []) if row["step"] <= done]

            def evaluate(step: int) -> None:
                started = time.perf_counter()
                with gathered(trainer, trainer.accelerator.unwrap_model(trainer.model_wrapped)):
                    if self.main and step not in known:
                        self._evaluate_at(step, trainer, tokenizer)
                    self.gate.wait()
                recorder.leave_out(time.perf_counter() - started)

            trainer.add_callback(Periodic(recipe.eval.every, recipe.updates, evaluate))
        return trainer

    def _evaluate_at(self, step: int, trainer: AdvantageTrainer, tokenizer: Reader) -> None:
        with self._phase("evaluate_during"):
            model = trainer.accelerator.unwrap_model(trainer.model)
            found = measure(model, tokenizer, self.problems.task, self.problems.held_out, self.recipe, self.sampler)
        self.folder.log_held_out(step, found)
        results = {mode: facts(evaluation) for mode, evaluation in found.items()}
        during = [row for row in self.folder.summary().get("during", []) if row["step"] < step]
        self.folder.update_summary(during=[*during, {"step": step, **results}])
        text = ", ".join(f"{mode} {result['accuracy']:.1%}" for mode, result in results.items())
        self.console.note(f"held-out accuracy at step {step}: {text}")

    def _save(self, model: PreTrainedModel, tokenizer: Reader, state: Any = None) -> None:
        """state: all weights by name, where the model itself holds a part of them."""
        model.generation_config.eos_token_id = self.own_ends  # what ends a response to this task alone stays here
        model.save_pretrained(self.folder.model, state_dict=state)
        tokenizer.save_pretrained(self.folder.model)

    # ---- the end ------------------------------------------------------------------------------------------------

    def _finish(self, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
        rows, recipe = self.folder.metrics(), self.recipe
        seconds, cpu_seconds = self._added("seconds", self.seconds), self._added("cpu_seconds", self.cpu_seconds)
        seconds["steps"] = round(sum(row["seconds"] for row in rows), 2)
        summary = self.folder.update_summary(
            estimator=str(self.estimator),
            task=recipe.task,
            model=recipe.model,
            seed=recipe.seed,
            steps=len(rows),
            dropped_prompts=self.problems.dropped.get("too_long", 0),
            dropped=self.problems.dropped,
            **self._outcomes(rows),
            seconds=seconds,
            cpu_seconds=cpu_seconds,
        )
        held_out = [(row["step"], row) for row in summary.get("during", [])]
        if before and after:
            held_out = [(0, before), *held_out, (recipe.steps, after)]
        draw(rows, self.folder.curves, f"{recipe.task}, {self.estimator}, seed {recipe.seed}", held_out)
        if after:
            self.console.results(before, after)
            prompts = [self.problems.held_out[index].prompt for index in easy_to_hard(self.problems.held_out)]
            if len({len(line["right"]) for line in self.folder.held_out()}) == 1:  # else `before` is of other problems
                self.console.samples(list(zip(prompts, before["responses"], after["responses"], strict=False)))
        self.console.note(f"run folder: {self.folder.path}  ({seconds.get('train', 0.0):.0f} s of training)")
        return summary

    def _added(self, name: str, mine: dict[str, float]) -> dict[str, float]:
        """Seconds of each phase, with those of the parts of the run before this one."""
        earlier = self.folder.summary().get(name, {}) if self.recipe.resume else {}
        return {phase: round(earlier.get(phase, 0.0) + mine.get(phase, 0.0), 2) for phase in {**earlier, **mine}}

    def _outcomes(self, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """How the judgements of the training responses ended, and the first that could not be judged."""
        counts = totals(rows, self.recipe.responses)
        text = complaint(counts, len(rows) * self.recipe.responses)
        if text is None:
            return {"outcomes": counts}
        self.console.note(f"{text}; {self.folder.summary_file} holds the first as `unjudged`")
        return {"outcomes": counts, "unjudged": unjudged_example(self.folder.rollouts)}


def easy_to_hard(problems: Sequence[Problem], count: int = 3) -> list[int]:
    """Indices of up to `count` problems to show, spread over the levels from the lowest to the highest."""
    ranked = sorted(range(len(problems)), key=lambda index: problems[index].level)  # stable: ties in given order
    if len(ranked) <= count:
        return ranked
    return [ranked[round(i * (len(ranked) - 1) / (count - 1))] for i in range(count)]


def _timed(function: Callable[..., Any], phases: dict[str, float], name: str) -> Callable[..., Any]:
    """The function, adding the seconds of each call to `phases[name]`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        output = function(*args, **kwargs)
        phases[name] = phases.get(name, 0.0) + time.perf_counter() - started
        return output

    return call


def train(recipe: Recipe) -> dict[str, Any]:
    """Run a recipe from start to end; see `Run.execute`."""
    return Run(recipe).execute()
