"""A recipe's rewards as a reward manager of verl: judged as `upside train` judges them everywhere."""

from __future__ import annotations

from typing import Any

from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase
from verl.utils.fs import copy_to_local
from verl.utils.model import get_generation_config

from upside.evaluation.generate import ends
from upside.rewards import Completions, load_rewards
from upside.tasks import load_task
from upside.training.recipe import load


class RecipeRewards(RewardManagerBase):
    """Scores one response with the rewards of the recipe at `reward.reward_kwargs.recipe`.

    A row's `extra_info.problem` is the id of its problem. The dict beside the score holds `correct` and `outcome`; a
    response that could not be scored has the score NaN, which the trainer takes as no reward.
    """

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any, **kwargs: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        recipe = load(config.reward.reward_kwargs.recipe)
        task = load_task(recipe.task, **recipe.task_options)
        self.rewards = load_rewards(recipe.rewards, task)
        self.problems = {p.id: p for p in task.problems("train", recipe.train_problems, recipe.seed)}
        folder = copy_to_local(config.actor_rollout_ref.model.path)
        self.ends = set(ends(get_generation_config(folder), tokenizer, task))

    async def run_single(self, data: Any) -> dict[str, Any]:
        row = data[-1:][0]  # of several outputs of a session, the last
        length = int(row.batch["attention_mask"][-row.batch["responses"].shape[-1] :].sum())
        ids = row.batch["responses"][:length].tolist()
        batch = Completions(
            problems=[self.problems[row.non_tensor_batch["extra_info"]["problem"]]],
            responses=[self.tokenizer.decode(ids, skip_special_tokens=True)],
            lengths=[length],
            truncated=[bool(ids) and ids[-1] not in self.ends],
        )
        judged = await self.loop.run_in_executor(None, self.rewards, batch)
        score = judged.score[0]
        return {
            "reward_score": float("nan") if score is None else score,
            "reward_extra_info": {"correct": judged.correct[0], "outcome": judged.outcomes[0]},
        }
