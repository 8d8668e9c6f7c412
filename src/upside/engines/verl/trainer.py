"""verl's synchronous trainer with what estimators need beside rewards and lengths: `trainer.v1.trainer_mode=upside`.

Everything else is verl's: `_compute_advantage` still does the work, in a context that holds the missing fields.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import transfer_queue as tq
from torch import Tensor
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from upside.chains import Estimator
from upside.engines.verl import fields
from upside.engines.verl.estimators import Estimate, Supply, supplied
from upside.engines.verl.options import PREFIX, build, is_ours, read
from upside.engines.verl.record import Recorder
from upside.engines.verl.reference import Reference
from upside.evaluation.generate import ends

STATE_FILE = "advantage_estimator.json"


@register_trainer("upside")
class UpsideTrainer(PPOTrainerSync):
    """PPOTrainerSync that supplies entropy, correctness, truncation, reference rewards, the step and named metrics.

    It keeps the estimator's state beside verl's checkpoints and adds its metrics to verl's as `advantage/…`. With an
    estimator that is not Upside's it is PPOTrainerSync. Settings of the mode are those of `sync`.
    """

    def __init__(self, config: Any) -> None:
        config.trainer.v1.trainer_mode = "sync"  # verl branches on the name: replay buffer, queue in checkpoints
        self.estimator: Estimator | None = None
        self.reference: Reference | None = None
        self.recorder: Recorder | None = None
        algorithm = config.algorithm
        if is_ours(algorithm.adv_estimator):
            self.options = read(algorithm)
            self.estimator = build(algorithm.adv_estimator, self.options)
            if self.options.run_folder is not None:
                self.recorder = Recorder(self.options.run_folder, self.estimator)
            correction = algorithm.get("rollout_correction") or {}
            if "entropy" in self.estimator.needs and correction.get("bypass_mode"):
                raise ValueError(
                    f"estimator {str(self.estimator)!r} needs entropy, which verl does not compute with "
                    "algorithm.rollout_correction.bypass_mode=True; switch it off"
                )
        elif algorithm.get(PREFIX):
            raise ValueError(
                f"algorithm.{PREFIX} is given, but algorithm.adv_estimator={algorithm.adv_estimator} is verl's own; "
                f"set algorithm.adv_estimator={PREFIX}"
            )
        super().__init__(config)

    def _setup(self) -> None:
        super()._setup()
        if self.estimator is None:
            return
        if "reference_rewards" in self.estimator.needs and self.options.reference == "fresh":
            replicas = len(self.llm_server_manager.get_replicas())
            self.reference = Reference(self.config, self.options, replicas, self.get_reward_handles())

    # ---- the advantages -----------------------------------------------------------------------------------------

    def _compute_advantage(self, batch: Any, metrics: dict) -> Any:
        if self.estimator is None:
            return super()._compute_advantage(batch, metrics)
        stored = self._stored(batch)
        supply = Supply(self.estimator, self._fields(batch, stored), fields.speakers(batch.keys))
        with supplied(supply):
            batch = super()._compute_advantage(batch, metrics)
        if supply.estimate is not None:
            metrics.update({f"advantage/{name}": value for name, value in supply.estimate.result.metrics.items()})
            if self.recorder is not None:
                self._record(supply.estimate, stored)
        return batch

    def step(self, metrics: dict, timing_raw: dict) -> Any:
        if self.recorder is not None:
            self.recorder.start()
        batch = super().step(metrics, timing_raw)
        if self.recorder is not None:
            self.recorder.write(metrics, timing_raw)
        return batch

    def _stored(self, batch: Any) -> Any:
        """What verl keeps of the batch that an estimator or the run folder may want, missing fields left out."""
        assert self.estimator is not None
        named = sorted(self.estimator.needs - fields.OWN)
        wanted = ["prompts", "responses", "response_mask", "entropy", "extra_fields", "extra_info"]
        wanted.append(self.options.reference_column)
        return tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=list(dict.fromkeys([*wanted, *named]))
        )

    def _record(self, estimate: Estimate, stored: Any) -> None:
        assert self.recorder is not None
        infos = fields.reward_infos(_listed(stored, "extra_fields"), stored.batch_size[0])
        prompts, responses = (
            [self.tokenizer.decode(ids, skip_special_tokens=True) for ids in _rows(stored[name])]
            for name in ("prompts", "responses")
        )
        correct = fields.correctness(infos, self.options.correct, needed=False) or [None] * len(infos)
        outcomes = [info.get("outcome") for info in infos]
        pictures = [row.get("upside_pictures") or [] for row in _listed(stored, "extra_info") or []]
        self.recorder.keep(estimate, prompts, responses, correct, outcomes, pictures)

    def _fields(self, batch: Any, stored: Any) -> dict[str, Any]:
        """Every Rollouts field that can be had, one value per row of the batch."""
        assert self.estimator is not None
        needs = self.estimator.needs
        named = sorted(needs - fields.OWN)
        masks, responses = _rows(stored["response_mask"]), _rows(stored["responses"])
        infos = fields.reward_infos(_listed(stored, "extra_fields"), len(batch.keys))
        padding = [bool(tag.get("is_padding")) for tag in batch.tags]
        found: dict[str, Any] = {
            "lengths": [int(mask.sum()) for mask in masks],
            "truncated": fields.truncation(responses, self._ends, self.config.data.max_response_length),
            "valid": [not pad for pad in padding],
            "metrics": {name: fields.metric(name, infos, _listed(stored, name)) for name in named},
            "step": self.global_steps,
            "total_steps": self.total_training_steps,
        }
        correct = fields.correctness(infos, self.options.correct, "correct" in needs)
        if correct is not None and "correct" in needs:
            found["valid"] = [v and c is not None for v, c in zip(found["valid"], correct, strict=True)]
            found["correct"] = correct
        elif correct is not None and None not in correct:
            found["correct"] = correct
        if "entropy" in stored.keys():  # noqa: SIM118  (a TensorDict iterates over rows)
            pairs = zip(_rows(stored["entropy"]), masks, strict=True)
            found["entropy"] = [fields.mean_over_tokens(e[None], mask[None])[0] for e, mask in pairs]
        if "reference_rewards" in needs:
            found["reference_rewards"] = self._reference_rewards(batch, stored, padding)
        return found

    def _reference_rewards(self, batch: Any, stored: Any, padding: list[bool]) -> list[float | None]:
        if self.reference is not None:
            return self.reference.rewards(batch, padding)
        name = self.options.reference_column
        column = _listed(stored, name)
        if column is None:
            raise ValueError(
                f"reference=table, but the data has no column {name!r}; add it, name another with "
                "algorithm.upside.reference_column, or sample the reference with algorithm.upside.reference=fresh"
            )
        return fields.paired(column, fields.session_numbers(batch.keys), name)

    @property
    def _ends(self) -> set[int]:
        """Token ids that end a response: the tokenizer's and those of the model's generation config."""
        if not hasattr(self, "_end_ids"):
            from verl.utils.fs import copy_to_local
            from verl.utils.model import get_generation_config

            folder = copy_to_local(self.config.actor_rollout_ref.model.path)
            self._end_ids = set(ends(get_generation_config(folder), self.tokenizer))
        return self._end_ids

    # ---- state in checkpoints -----------------------------------------------------------------------------------

    def _save_checkpoint(self) -> None:
        if self.estimator is not None:  # before verl writes which checkpoint is the newest
            folder = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / STATE_FILE).write_text(json.dumps(self.estimator.state_dict()))
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        if self.recorder is not None:
            self.recorder.folder.forget_after(self.global_steps)
        if self.estimator is None or not self.global_steps:
            return
        trainer = self.config.trainer
        resumed = trainer.resume_from_path if trainer.resume_mode == "resume_path" else None
        path = Path(resumed or Path(trainer.default_local_dir) / f"global_step_{self.global_steps}") / STATE_FILE
        if path.is_file():
            self.estimator.load_state_dict(json.loads(path.read_text()))
        elif self.estimator.state_dict():
            raise ValueError(f"{path} is missing, the state of {str(self.estimator)!r}; resume from an earlier one")


def _rows(values: Any) -> list[Tensor]:
    """The rows of a nested or plain tensor."""
    return list(values.unbind())


def _listed(stored: Any, name: str) -> list[Any] | None:
    """A field of the batch as a list with one entry per row, None where it is not stored."""
    if name not in stored.keys():  # noqa: SIM118  (a TensorDict iterates over rows)
        return None
    values = stored[name]
    if isinstance(values, Tensor):
        return [row.tolist() for row in values.unbind()]
    return list(values.tolist() if hasattr(values, "tolist") else values)
