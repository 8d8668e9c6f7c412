"""A sample of a language model's responses, with the gradient of each one's log-probability."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from upside.analysis.gradients.sample import Sample
from upside.analysis.gradients.sketch import Sketch
from upside.evaluation.backends import Backend, in_process
from upside.evaluation.generate import batches, seed_of
from upside.evaluation.judging import Judge, Row
from upside.evaluation.run import Progress
from upside.evaluation.sampling import Sampling
from upside.evaluation.sets import Prompted

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Shown = Callable[[str, int], AbstractContextManager[Progress]]
"""Opens the progress of a part of the work, by its name and number of responses."""
Drawn = list[list[tuple[list[int], Row]]]
"""Per problem, its responses: token ids and verdict."""


def draw(backend: Backend, part: Prompted, sampling: Sampling, batch_size: int, seed: int, tell: Progress) -> Drawn:
    """`sampling.samples` judged responses to each problem; the same call gives the same responses."""
    judge, eos = Judge(part.of.task), backend.end_ids(part.of.task)
    found: Drawn = [[] for _ in part.prompts]
    done, total = 0, len(part.prompts) * sampling.samples
    for problems in batches(part.prompts, sampling.samples, batch_size):
        asked = [(problem, sample) for problem in problems for sample in range(sampling.samples)]
        for start in range(0, len(asked), batch_size):
            now = asked[start : start + batch_size]
            seeds = [seed_of(seed, part.of.problems[problem].id, sample) for problem, sample in now]
            ids = backend.generate([part.prompts[problem] for problem, _ in now], seeds, eos, sampling)
            rows = judge(
                [part.of.problems[problem] for problem, _ in now],
                [sample for _, sample in now],
                backend.tokenizer.batch_decode(ids, skip_special_tokens=True),
                [len(each) for each in ids],
                [each[-1] not in eos for each in ids],
            )
            for (problem, _), each, row in zip(now, ids, rows, strict=True):
                found[problem].append((each, row))
            done += len(now)
            tell(done, total, sum(map(len, ids)))
    return found


def score(
    model: PreTrainedModel, prompt: Sequence[int], response: Sequence[int], temperature: float = 1.0
) -> tuple[tuple[Tensor, ...], float]:
    """Gradient of the response's log-probability under the sampling distribution, by trained parameter, and that
    distribution's mean entropy in nats per token."""
    ids = torch.tensor([[*prompt, *response]], device=model.device)
    logits = model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1]
    logp = (logits.float() / temperature).log_softmax(-1)  # (T, V)
    total = logp.gather(1, ids[0, len(prompt) :, None]).sum()
    entropy = -(logp.detach().exp() * logp.detach()).nan_to_num(0.0).sum(-1).mean()
    return torch.autograd.grad(total, trained(model), materialize_grads=True), float(entropy)


def trained(model: PreTrainedModel) -> list[Tensor]:
    """The parameters that a gradient is taken of, in order."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def sample(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    part: Prompted,
    sampling: Sampling,
    *,
    needs: frozenset[str] = frozenset(),
    projection: int = 8192,
    batch_size: int = 256,
    seed: int = 0,
    shown: Shown,
) -> Sample:
    """`sampling.samples` responses to each problem, with what the estimators need beside them.

    needs: as `Estimator.needs`: reference rewards are those of as many further responses of the same model, ReMax's
    baseline is the reward of the greedy one. One backward pass a response; the memory is that of one gradient, and
    `projection` numbers a response.
    """
    backend, shape = in_process("upside", model, tokenizer), (len(part.prompts), sampling.samples)
    total = shape[0] * shape[1]

    def drawn(what: str, sampling: Sampling, seed: int) -> Drawn:
        with shown(what, len(part.prompts) * sampling.samples) as tell:
            return draw(backend, part, sampling, batch_size, seed, tell)

    own, metrics = drawn("responses", sampling, seed), {}
    fields = _columns(own) | {"entropy": torch.empty(shape, dtype=torch.float64)}
    if "reference_rewards" in needs:
        fields["reference_rewards"] = _rewards(drawn("reference responses", sampling, seed + 1))
    if "baseline" in needs:
        greedy = Sampling(1, greedy=True, max_new_tokens=sampling.max_new_tokens)
        metrics["baseline"] = _rewards(drawn("greedy responses", greedy, seed)).expand(shape).clone()
    sketch = Sketch(sum(parameter.numel() for parameter in trained(model)), projection, seed, model.device)
    scores, square_norms = torch.empty(*shape, sketch.size), torch.empty(shape, dtype=torch.float64)
    with shown("gradients", total) as tell:
        for done, (place, prompt, response) in enumerate(_each(part, own), 1):
            gradient, fields["entropy"][place] = score(model, prompt, response, sampling.temperature)
            scores[place] = sketch(gradient).cpu()
            square_norms[place] = float(sum(each.float().square().sum() for each in gradient))
            tell(done, total, len(response))
    return Sample(_rewards(own), scores, square_norms, fields, metrics)


def _each(part: Prompted, drawn: Drawn) -> Iterator[tuple[tuple[int, int], list[int], list[int]]]:
    for problem, responses in enumerate(drawn):
        for i, (ids, _) in enumerate(responses):
            yield (problem, i), part.prompts[problem], ids


def _rewards(drawn: Drawn) -> Tensor:
    """(P, M) the score of each verdict, NaN where there is none."""
    return _matrix(drawn, lambda row: float("nan") if row.score is None else row.score)


def _columns(drawn: Drawn) -> dict[str, Tensor]:
    return {
        "lengths": _matrix(drawn, lambda row: row.tokens),
        "truncated": _matrix(drawn, lambda row: row.truncated),
        "correct": _matrix(drawn, lambda row: bool(row.correct)),
    }


def _matrix(drawn: Drawn, value: Callable[[Row], float]) -> Tensor:
    return torch.tensor([[value(row) for _, row in responses] for responses in drawn], dtype=torch.float64)
