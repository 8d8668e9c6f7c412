"""An estimator's state in TRL's checkpoints, and weights that are saved under other names than the model's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, Trainer
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from upside.chains import Estimator

STATE_FILE = "advantage_estimator.json"


class KeepsEstimator(Trainer):
    """A trainer with an `estimator`, whose state is saved and loaded with everything else."""

    estimator: Estimator

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()  # this file comes last: a checkpoint that has it is whole
        if self.args.should_save:
            folder = Path(self._get_output_dir(trial=trial)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
            (folder / STATE_FILE).write_text(json.dumps(self.estimator.state_dict()))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """Under whatever names the weights were saved: those of LLaVA and Qwen2.5-VL are saved as on the hub, where
        they are called otherwise than in the model, and Trainer would silently go on with what the model held."""
        policy = self.model if model is None else model
        if self.is_fsdp_enabled or not isinstance(policy, PreTrainedModel):
            super()._load_from_checkpoint(resume_from_checkpoint, model)
            return
        saved, info = type(policy).from_pretrained(resume_from_checkpoint, dtype=policy.dtype, output_loading_info=True)
        if missing := sorted(info["missing_keys"]):
            raise ValueError(f"{resume_from_checkpoint} lacks {missing[0]} of the weights; resume from an earlier one")
        policy.load_state_dict(saved.state_dict())

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        path = Path(checkpoint) / STATE_FILE
        if path.exists():
            self.estimator.load_state_dict(json.loads(path.read_text()))
        elif self.estimator.state_dict():
            raise ValueError(
                f"{checkpoint} lacks {STATE_FILE}, the state of {self.estimator}; resume from an earlier one"
            )
