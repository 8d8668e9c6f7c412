"""TRL engine: a drop-in `GRPOTrainer` whose advantages come from an Upside estimator.

    from upside.engines.trl import AdvantageTrainer
    trainer = AdvantageTrainer(model=..., reward_funcs=..., args=GRPOConfig(...), train_dataset=...,
                               estimator="canon:metric=length,mu=0.5 > adora_weight")

Everything that GRPOTrainer can do stays as it is (losses, vLLM, DDP, PEFT, tools): no line of TRL is copied.
The estimator sees the *global* batch, so a group may straddle ranks. `scale_rewards` and
`multi_objective_aggregation` of GRPOConfig no longer matter: they shape the advantages this class replaces.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from accelerate.utils import gather_object
from torch import Tensor
from transformers import PreTrainedTokenizerBase
from trl import GRPOTrainer

from upside.chains import Advantages, Estimator
from upside.chains import estimator as make_estimator
from upside.engines.buckets import IdleRows, in_buckets, without_idle
from upside.engines.calls import MEASURED, check_needs, digest, named, raise_unloaded, weighted
from upside.engines.checkpoints import KeepsEstimator
from upside.engines.loss import policy_gradient_loss
from upside.engines.pictures import one_row_each, sighted
from upside.engines.reference import Reference, Table, TabledReference
from upside.engines.scored import ScoredRollouts
from upside.rollouts import Rollouts
from upside.tasks.prompts import text_ids

CROSS_ENTROPY_LOSSES = ("cross_entropy", "cross_entropy_micro")

ResponseFunc = Callable[..., Sequence[Any]]


class AdvantageTrainer(KeepsEstimator, GRPOTrainer):
    """GRPOTrainer with `estimator=`.

    estimator: a spec string ("canon:metric=length,mu=0.5 > adora_weight") or an estimator object.
    correctness: a function with the signature of a reward function that returns True, False or None (unknown) per
        response: the outcome apart from reward shaping. Estimators that read `correct` need it.
    response_metrics: name -> function of the same signature returning one number per response, for estimators that read
        a metric of that name (CANON can regroup by it); a data-set column of the name does as well.
    on_rollouts: called on the main process with the ScoredRollouts of every training batch.
    length_buckets: score the batch in this many length-sorted parts so that short responses do not pay for the
        padding of long ones (single process only; 1 = TRL's own single pass, bit for bit).
    skip_zero_advantage: leave responses whose advantage is exactly 0 out of the update's forward and backward pass:
        they add nothing to the loss or its gradient. Takes effect where that is so (no KL term, no entropy bonus)
        and where the sampler has measured the entropies, so that the logged entropy stays that of all.
        A batch without any signal still takes its step: weight decay and the optimiser's moments move the weights.

    `args.loss_type` takes two more values: "cross_entropy", the token mean of -A log pi over the whole optimiser step,
    and "cross_entropy_micro", the same per micro-batch and then averaged, as in AAPO's released code. Both need beta 0.

    When the estimator reads `reference_rewards` (AAPO), one response per policy response is sampled from a frozen copy
    of the initial weights (PEFT: the adapters switched off) with the same sampling parameters and scored by the same
    reward functions; a data-set column `reference_reward` replaces that, and so does `reference_table`: for each value
    of the data set's column `problem` the rewards of reference responses that were sampled before (`upside reference
    build`), drawn in turn (`TabledReference`). reference_missing: for a problem without any, "error" or "fresh".
    Evaluation batches keep TRL's own advantages: the estimator is not called, so its state cannot move.
    """

    _tag_names: ClassVar[list[str]] = ["trl", "grpo", "upside"]

    def __init__(
        self,
        *args: Any,
        estimator: str | Estimator,
        correctness: ResponseFunc | None = None,
        response_metrics: dict[str, ResponseFunc] | None = None,
        on_rollouts: Callable[[ScoredRollouts], None] | None = None,
        length_buckets: int = 1,
        skip_zero_advantage: bool = False,
        reference_table: Table | None = None,
        reference_missing: str = "error",
        **kwargs: Any,
    ) -> None:
        self.estimator = make_estimator(estimator) if isinstance(estimator, str) else estimator
        self.correctness = correctness
        self.response_metrics = dict(response_metrics or {})
        self.on_rollouts = on_rollouts
        self.length_buckets = length_buckets
        self.skip_zero_advantage = skip_zero_advantage
        self._tap: dict[str, Any] | None = None
        self._idle: IdleRows | None = None
        columns = getattr(kwargs.get("train_dataset"), "column_names", None) or ()
        check_needs(self.estimator.needs, correctness, {*self.response_metrics, *columns})
        super().__init__(*args, **kwargs)
        if self.loss_type in CROSS_ENTROPY_LOSSES and self.beta != 0.0:
            raise ValueError(f"loss_type {self.loss_type!r} has no KL term; set beta=0 (it is {self.beta})")
        pairs = zip(self.reward_funcs, self.reward_func_names, strict=True)
        self.reward_funcs: list[Any] = [named(func, name, self._step_now) for func, name in pairs]
        self.reference: Reference | TabledReference | None = None
        if "reference_rewards" in self.estimator.needs and reference_table is not None:
            self.reference = TabledReference(self, reference_table, reference_missing)
        elif "reference_rewards" in self.estimator.needs and not self._has_column("reference_reward"):
            self.reference = Reference(self)

    def _tokenize_prompts(self, prompts: list[Any]) -> Any:
        """As evaluation reads them: plain text with BOS once and without an EOS that the tokenizer would append."""
        if isinstance(self.processing_class, PreTrainedTokenizerBase) and isinstance(prompts[0], str):
            return [text_ids(self.processing_class, prompt) for prompt in prompts], None, {}
        return super()._tokenize_prompts(prompts)

    def _generate(self, prompts: list[Any]) -> tuple:
        """With no pictures as [] where TRL 1.16 has None, which processors refuse."""
        *found, images, drawn_by_tools = super()._generate(prompts)
        return *found, images and [shown or [] for shown in images], drawn_by_tools

    # ---- taps on what TRL computes ------------------------------------------------------------------------------

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, ids: Any, *a: Any, **k: Any) -> Tensor:
        rewards = super()._calculate_rewards(inputs, prompts, completions, ids, *a, **k)
        if self._tap is not None and "rewards" not in self._tap:
            extras = list(self._pending_extra_logs)
            self._tap.update(rewards=rewards, prompts=prompts, completions=completions, ids=ids, extras=extras)
        return rewards

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple:
        """TRL's scoring pass, in buckets and without idle rows where asked; keeps the entropies of the first one."""
        tapped = self._tap is not None and model is self.model and "entropy" in self.estimator.needs
        if tapped:
            kwargs["compute_entropy"] = True
        score: Callable[..., tuple] = functools.partial(super()._get_per_token_logps_and_entropies, model)
        kwargs = one_row_each(kwargs)
        parts = self.length_buckets > 1 or bool((~sighted(kwargs, input_ids)).any())
        if not args and parts and self.accelerator.num_processes == 1:
            score = functools.partial(in_buckets, score, self.length_buckets)
        if not args and self._idle is not None:
            score = functools.partial(without_idle, score, self._idle)
        out = score(input_ids, attention_mask, logits_to_keep, *args, **kwargs)
        if tapped and self._tap is not None:
            self._tap.setdefault("entropies", out[1])
        return out

    # ---- the advantages -----------------------------------------------------------------------------------------

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        if "images" in inputs[0]:
            raise_unloaded(row["images"] for row in inputs)
        self._tap = {}
        try:
            output = one_row_each(super()._generate_and_score_completions(inputs))
            if not self.model.training:
                return output
            batch, correct = self._rollouts(inputs, output, self._tap)
            rewards_per_func, extras = self._tap["rewards"], self._tap["extras"]
        finally:
            self._tap = None
        result = self.estimator(batch)
        self._replace_advantages(output, result, len(inputs))
        if self.on_rollouts is not None and self.accelerator.is_main_process:
            n = len(batch)
            self.on_rollouts(
                ScoredRollouts(
                    prompts=list(self._logs["prompt"])[-n:],
                    completions=list(self._logs["completion"])[-n:],
                    batch=batch,
                    advantages=result,
                    correct=correct,
                    rewards_per_func=rewards_per_func,
                    extras={name: list(self._logs["extra"][name])[-n:] for name in extras},
                    reference_tokens=self.reference.tokens if self.reference is not None else None,
                )
            )
        return output

    def _rollouts(self, inputs: Any, output: dict, tap: dict) -> tuple[Rollouts, list[bool | None] | None]:
        """The global batch, rows in gathered order (rank 0's rows, rank 1's rows, …)."""
        gather, needs = self.accelerator.gather, self.estimator.needs
        rewards = weighted(tap["rewards"], self.reward_weights)
        lengths, truncated = self._lengths(output, tap["ids"])
        valid = ~rewards.isnan()
        fields: dict[str, Any] = {"lengths": gather(lengths), "truncated": gather(truncated)}
        correct = self._correct(inputs, tap)
        if correct is not None:
            known = ~correct.isnan()
            if "correct" in needs:
                valid &= known  # an unknown outcome is no failure: the row leaves the statistics
            if "correct" in needs or bool(known.all()):
                fields["correct"] = correct.nan_to_num(0.0) > 0.5
        if "sampled_entropy" in inputs[0]:  # a sampler of ours has measured it
            output["sampled_entropy"] = self._column(inputs, "sampled_entropy")
            fields["entropy"] = gather(output["sampled_entropy"])
        elif "entropy" in needs:
            fields["entropy"] = gather(self._entropy(output, tap, lengths))
        if self.reference is not None:
            fields["reference_rewards"] = self.reference.rewards(inputs, output, tap)
        elif "reference_rewards" in needs:
            fields["reference_rewards"] = gather(self._column(inputs, "reference_reward"))
        fields["metrics"] = {
            name: gather(self._called(func, name, inputs, tap)) for name, func in self.response_metrics.items()
        }
        for name in sorted(needs - MEASURED - set(self.response_metrics)):
            fields["metrics"][name] = gather(self._column(inputs, name))
        batch = Rollouts(
            rewards=rewards,
            groups=self._groups(inputs),
            valid=valid,
            step=self._batch_number(),
            total_steps=-(-self.state.max_steps // self._updates()) or None,  # the last batch may end in the middle
            **fields,
        )
        outcome = None if correct is None else [None if c != c else c > 0.5 for c in correct.tolist()]
        return batch, outcome

    def _groups(self, inputs: Any) -> Tensor:
        """One id per prompt occurrence: TRL repeats a prompt `num_generations` times in gathered order. (N,)"""
        digests = gather_object([digest(example.get("prompt")) for example in inputs])
        size = self.num_generations
        for start in range(0, len(digests), size):
            if len(set(digests[start : start + size])) != 1:
                raise RuntimeError(
                    f"rows {start} to {start + size - 1} of the gathered batch hold different prompts, so rewards and "
                    "groups are out of step: keep TRL's own sampler and data order"
                )
        return torch.arange(len(digests), device=self.accelerator.device) // size

    def _lengths(self, output: dict, ids: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Raw generated tokens and the truncation flag of this rank's rows, before any loss masking. (B,), (B,)"""
        device = self.accelerator.device
        ends = {*self.eos_token_ids, self._tokenizer.pad_token_id}
        truncated = torch.tensor([bool(row) and row[-1] not in ends for row in ids], device=device)
        if "tool_mask" not in output:
            return torch.tensor([len(row) for row in ids], device=device), truncated
        if self.mask_truncated_completions:
            raise ValueError(
                "mask_truncated_completions hides which tokens of a tool call were generated; switch it off"
            )
        return (output["tool_mask"] * output["completion_mask"]).sum(1), truncated

    def _entropy(self, output: dict, tap: dict, lengths: Tensor) -> Tensor:
        """Mean nats per generated token of the policy before the update, after temperature. (B,)

        Free where TRL scores the batch anyway; otherwise one forward pass without gradient.
        """
        mask = output["completion_mask"]
        # the first pass of the batch is the policy's where TRL keeps old log-probabilities; else it is a reference's
        entropies = tap.get("entropies") if "old_per_token_logps" in output else None
        if self.mask_truncated_completions:  # TRL blanks these rows, attention included; the estimator wants them whole
            mask = (torch.arange(mask.shape[1], device=mask.device) < lengths[:, None]).to(mask.dtype)
            entropies = None
        if entropies is None:
            known = inspect.signature(super()._get_per_token_logps_and_entropies).parameters
            extras = {k: v for k, v in output.items() if k in known}
            with torch.no_grad():
                _, entropies, _ = self._get_per_token_logps_and_entropies(
                    self.model,
                    torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1),
                    torch.cat([output["prompt_mask"], mask], dim=1),
                    output["completion_ids"].shape[1],
                    batch_size=self.args.per_device_train_batch_size,
                    compute_entropy=True,
                    **extras,
                )
        mask = mask * output.get("tool_mask", 1)
        return (entropies * mask).sum(1) / mask.sum(1).clamp(min=1)

    def _correct(self, inputs: Any, tap: dict) -> Tensor | None:
        """1, 0 or NaN (unknown) per row of the global batch. (N,)"""
        if self.correctness is None:
            return None
        return self.accelerator.gather(self._called(self.correctness, "correctness", inputs, tap))

    def _called(self, func: ResponseFunc, name: str, inputs: Any, tap: dict) -> Tensor:
        """The local values of a function with a reward function's signature; None becomes NaN. (B,)"""
        columns = {k: [x[k] for x in inputs] for k in inputs[0] if k not in ("prompt", "completion", "completion_ids")}
        values = named(func, name, self._step_now)(
            prompts=tap["prompts"], completions=tap["completions"], completion_ids=tap["ids"],
            trainer_state=self.state, **columns,
        )  # fmt: skip
        if len(values) != len(inputs):
            raise ValueError(f"{name} returned {len(values)} values for {len(inputs)} responses; return one each")
        numbers = [float("nan") if v is None else float(v) for v in values]
        return torch.tensor(numbers, device=self.accelerator.device)

    def _replace_advantages(self, output: dict, result: Advantages, local: int) -> None:
        """Train on, log and report the same numbers."""
        values = result.values.to(output["advantages"])
        first = self.accelerator.process_index * local
        output["advantages"] = values[first : first + local]
        logged = self._logs["advantages"]
        for _ in range(min(len(values), len(logged))):
            logged.pop()
        logged.extend(values.tolist())
        for name, value in result.metrics.items():
            self._metrics["train"][f"advantage/{name}"].append(float(value))

    # ---- the loss -----------------------------------------------------------------------------------------------

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        try:
            self._idle = self._idle_rows(inputs) if model.training else None
            if self.loss_type in CROSS_ENTROPY_LOSSES:
                return self._cross_entropy(model, inputs)
            return super()._compute_loss(model, inputs)
        finally:
            self._idle = None

    def _idle_rows(self, inputs: dict[str, Any]) -> IdleRows | None:
        extra_terms = self.beta != 0.0 or self._entropy_bonus_enabled or self.top_entropy_quantile < 1.0
        if not self.skip_zero_advantage or extra_terms or "sampled_entropy" not in inputs:
            return None
        idle = inputs["advantages"] == 0
        idle[0] &= not bool(idle.all())  # one row stays, so that a backward pass exists on every process
        return IdleRows(idle, inputs.get("old_per_token_logps"), inputs["sampled_entropy"])

    def _cross_entropy(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        """The policy loss of GPG and AAPO."""
        known = inspect.signature(super()._get_per_token_logps_and_entropies).parameters
        logps, entropies, _ = self._get_per_token_logps_and_entropies(
            model,
            torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1),
            torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1),
            inputs["completion_ids"].shape[1],
            compute_entropy=True,
            **{k: v for k, v in inputs.items() if k in known},
        )
        mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
        parts = self.current_gradient_accumulation_steps if model.training else 1
        if self.loss_type == "cross_entropy":
            tokens = inputs["num_items_in_batch"].clamp(min=1.0) / self.accelerator.num_processes
            if model.training:  # the count spans the generation batch: take one optimiser step's share of it
                tokens = tokens * parts / self.args.steps_per_generation
        else:
            tokens = mask.sum().clamp(min=1.0) * parts
        totals = self.accelerator.reduce(torch.stack([(entropies * mask).sum(), mask.sum().float()]), reduction="sum")
        mode = "train" if model.training else "eval"
        self._metrics[mode]["entropy"].append((totals[0] / totals[1].clamp(min=1.0)).item())
        return policy_gradient_loss(logps, inputs["advantages"], mask, tokens)

    # ---- small things ---------------------------------------------------------------------------------------------

    def _updates(self) -> int:
        """Optimiser steps a batch of responses is used for."""
        return max(1, self.args.steps_per_generation * self.num_iterations // self.args.gradient_accumulation_steps)

    def _batch_number(self) -> int:
        """Which batch of responses this is, from 1."""
        return self.state.global_step // self._updates() + 1

    def _step_now(self) -> int:
        return self.state.global_step + 1

    def _has_column(self, name: str) -> bool:
        return name in (getattr(self.train_dataset, "column_names", None) or [])

    def _column(self, inputs: Any, name: str) -> Tensor:
        values = [float("nan") if x[name] is None else float(x[name]) for x in inputs]
        return torch.tensor(values, device=self.accelerator.device)
