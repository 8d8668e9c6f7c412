"""What writes the responses: the package's own sampler, transformers' `generate`, or vLLM. One class each."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from upside.evaluation.generate import cut, end_ids, ends
from upside.evaluation.sampling import Sampling
from upside.spec import format_call, parse_call
from upside.tasks.prompts import Reader, tokenizer_of

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from upside.engines.pictures import Pictures

NOT_FINITE = "the model gives logits that are not finite: its weights are damaged, or too large for their dtype"


class Backend(Protocol):
    """A model that answers prompts."""

    name: str
    batch_size: int
    """Responses at once, where the caller does not say."""
    tokenizer: PreTrainedTokenizerBase
    reader: Reader
    """The tokenizer, or the processor of a model that takes pictures."""

    def end_ids(self, task: object) -> list[int]:
        """The token ids that end a response to this task."""
        ...

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], eos_ids: Sequence[int], sampling: Sampling,
        pictures: Pictures | None = None,
    ) -> list[list[int]]:  # fmt: skip
        """One response a prompt (token ids without padding), as generated ids up to and including the first end
        token. seeds: one a prompt; the same call on the same machine gives the same responses. pictures: those of the
        prompts."""
        ...


class _InProcess(ABC):
    """A transformers model held in this process. A batch draws from one stream of random numbers, seeded by its first
    row; the caller's random state and the model's training mode are as before afterwards."""

    name: str
    batch_size = 256

    def __init__(self, model: PreTrainedModel, reader: Reader) -> None:
        self.model, self.reader, self.tokenizer = model, reader, tokenizer_of(reader)

    @classmethod
    def load(cls, name: str | Path) -> _InProcess:
        """float32 on the CPU, the checkpoint's own type on a GPU. Raises what `upside.models.loading` does."""
        return cls(*load_model(name))

    def end_ids(self, task: object) -> list[int]:
        return end_ids(self.model, self.tokenizer, task)

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], eos_ids: Sequence[int], sampling: Sampling,
        pictures: Pictures | None = None,
    ) -> list[list[int]]:  # fmt: skip
        import torch

        with _undisturbed(self.model):
            torch.manual_seed(seeds[0])
            return self._run(prompts, eos_ids, sampling, pictures)

    @abstractmethod
    def _run(
        self, prompts: Sequence[Sequence[int]], eos_ids: Sequence[int], sampling: Sampling, pictures: Pictures | None
    ) -> list[list[int]]:
        """One batch, under the caller's seed."""


class UpsideBackend(_InProcess):
    """The package's own sampler: drops finished rows and reads repeated prompts once."""

    name = "upside"

    def _run(
        self, prompts: Sequence[Sequence[int]], eos_ids: Sequence[int], sampling: Sampling, pictures: Pictures | None
    ) -> list[list[int]]:
        from upside.engines.sampler import sample

        found = sample(
            self.model,
            prompts,
            eos_ids=eos_ids,
            max_new_tokens=sampling.max_new_tokens,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            greedy=sampling.greedy,
            pictures=pictures,
        )
        if any(logp != logp for row in found.logps for logp in row):
            raise ValueError(NOT_FINITE)
        return found.ids


class TransformersBackend(_InProcess):
    """`model.generate` on one left-padded batch; it ends when every row has."""

    name = "transformers"

    def _run(
        self, prompts: Sequence[Sequence[int]], eos_ids: Sequence[int], sampling: Sampling, pictures: Pictures | None
    ) -> list[list[int]]:
        import torch
        from transformers import GenerationConfig

        from upside.engines.sampler import picture_tokens

        width = max(len(prompt) for prompt in prompts)
        pad = eos_ids[0]  # where it stands is told by the mask, never by the value
        ids = torch.full((len(prompts), width), pad)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        choice: dict[str, Any] = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        if not sampling.greedy:
            choice = {
                "do_sample": True,
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "top_k": sampling.top_k,
            }
        config = GenerationConfig(
            max_new_tokens=sampling.max_new_tokens,
            eos_token_id=list(eos_ids),
            pad_token_id=pad,
            use_cache=True,
            suppress_tokens=picture_tokens(self.model) or None,
            **choice,
        )
        seen = pictures.inputs(range(len(prompts)), self.model.device) if pictures is not None else {}
        with _own_generation_config(self.model, config):
            tokens = self.model.generate(
                input_ids=ids.to(self.model.device),
                attention_mask=mask.to(self.model.device),
                logits_processor=[_finite],
                **seen,
            )
        return [cut(row, eos_ids) for row in tokens[:, width:].tolist()]


class VllmBackend:
    """vLLM, with a seed of its own for every response. It takes a name, not a model: weights that are being trained
    cannot be evaluated with it."""

    name = "vllm"
    batch_size = 1024  # it schedules them itself; what a kill loses is one batch

    def __init__(self, engine: Any, tokenizer: PreTrainedTokenizerBase, generation_config: Any) -> None:
        self.engine, self._generation_config = engine, generation_config
        self.tokenizer = self.reader = tokenizer

    @classmethod
    def load(cls, name: str | Path, **options: Any) -> VllmBackend:
        """options: of vLLM's engine."""
        import torch
        from transformers import GenerationConfig

        from upside.models.loading import load_tokenizer, locate

        source = str(locate(name))
        tokenizer = load_tokenizer(name)
        try:
            configured = GenerationConfig.from_pretrained(source)
        except OSError:  # a checkpoint need not have one
            configured = None
        vllm = importlib.import_module("vllm")
        fixed = {"load_format": "safetensors", "generation_config": "vllm", "trust_remote_code": False, "seed": 0}
        # on the CPU vLLM 0.32 cannot rewind the seed of a response whose prompt it reads in parts
        whole = {} if torch.cuda.is_available() else {"enable_chunked_prefill": False}
        engine = vllm.LLM(model=source, **{**whole, **options, **fixed})
        return cls(engine, tokenizer, configured)

    def end_ids(self, task: object) -> list[int]:
        return ends(self._generation_config, self.tokenizer, task)

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], eos_ids: Sequence[int], sampling: Sampling,
        pictures: Pictures | None = None,
    ) -> list[list[int]]:  # fmt: skip
        if pictures is not None:
            raise ValueError("backend vllm: it is not shown pictures here; use the backend transformers")
        vllm = importlib.import_module("vllm")
        law: dict[str, Any] = {"temperature": 0.0}
        if not sampling.greedy:
            law = {"temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": sampling.top_k}
        params = [
            vllm.SamplingParams(
                max_tokens=sampling.max_new_tokens, stop_token_ids=list(eos_ids), seed=seed, detokenize=False, **law
            )
            for seed in seeds
        ]
        asked = [vllm.TokensPrompt(prompt_token_ids=list(prompt)) for prompt in prompts]
        found = self.engine.generate(asked, params, use_tqdm=False)
        return [cut(output.outputs[0].token_ids, eos_ids) for output in found]


def _finite(ids: Tensor, logits: Tensor) -> Tensor:
    if bool(logits.isnan().any()):
        raise ValueError(NOT_FINITE)
    return logits


BACKENDS: dict[str, Any] = {"upside": UpsideBackend, "transformers": TransformersBackend, "vllm": VllmBackend}


@dataclass(frozen=True)
class Choice:
    """A backend by name. options: what vLLM's engine is started with. why: in words, for the screen."""

    name: str
    options: dict[str, Any]
    why: str

    def __str__(self) -> str:
        return format_call(self.name, self.options)

    @property
    def batch_size(self) -> int:
        """Responses at once, where the caller does not say."""
        size: int = BACKENDS[self.name].batch_size
        return size

    def load(self, model: str | Path) -> Backend:
        """The backend with that model in it."""
        backend: Backend = BACKENDS[self.name].load(model, **self.options)
        return backend


def choose(spec: str = "auto", shown_to: str | None = None) -> Choice:
    """The backend that a spec names; "auto" is vLLM where it is installed and there is a GPU, else the package's own
    sampler. `vllm:key=value,…` starts vLLM's engine with these options (gpu_memory_utilization, max_model_len,
    tensor_parallel_size, dtype, …). Raises ValueError for a name that is none, for one that is not installed, and for
    options of the others.

    shown_to: the kind of model (`config.model_type`) that there are pictures for; where the package's own sampler does
    not show it any, "auto" is `transformers`, and what does not take pictures is a ValueError.
    """
    installed = importlib.util.find_spec("vllm") is not None
    name, options = parse_call(spec, opening=":", closing="")
    if name == "auto":
        import torch

        gpu = torch.cuda.is_available()
        name = "vllm" if gpu and installed else "upside"
        if shown_to is not None:
            return _seeing(shown_to, None)
        why = "auto: there is no GPU" if not gpu else f"auto: vllm is {'' if installed else 'not '}installed"
    elif name not in BACKENDS:
        near = difflib.get_close_matches(name, [*BACKENDS, "auto"], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"backend must be one of auto, {', '.join(BACKENDS)}, got {name!r}{hint}")
    elif name == "vllm" and not installed:
        raise ValueError("backend vllm is not installed; pip install vllm, or use the backend upside")
    else:
        why = "as asked"
    if shown_to is not None:
        return _seeing(shown_to, name)
    if options and name != "vllm":
        raise ValueError(f"backend {name} takes no options, got {', '.join(options)}; only vllm does")
    return Choice(name, options, why)


def _seeing(kind: str, asked: str | None) -> Choice:
    """The backend that shows pictures to a kind of model. asked: by name, None for whichever does."""
    from upside.engines.pictures import SAMPLED

    takes = ["upside", "transformers"] if kind in SAMPLED else ["transformers"]
    if asked is not None and asked not in takes:
        raise ValueError(
            f"backend {asked} does not show pictures to models of type {kind}; use the backend {' or '.join(takes)}"
        )
    return Choice(asked or takes[0], {}, "as asked" if asked else f"auto: pictures for {kind}")


def load_model(model: str | Path) -> tuple[PreTrainedModel, Reader]:
    """Model and tokenizer or processor of a name as `upside.models.loading.load_model` takes it; float32 on the CPU,
    the checkpoint's own type on a GPU. Raises what that does."""
    import torch

    from upside.models import loading

    cuda = torch.cuda.is_available()
    loaded, tokenizer = loading.load_model(model, dtype="auto" if cuda else torch.float32)
    return loaded.to("cuda" if cuda else "cpu").eval(), tokenizer


def in_process(name: str, model: PreTrainedModel, reader: Reader) -> Backend:
    """The backend "upside" or "transformers" around a loaded model."""
    if name == "vllm" or name not in BACKENDS:
        raise ValueError(f"backend must be upside or transformers for a loaded model, got {name!r}")
    backend: Backend = BACKENDS[name](model, reader)
    return backend


@contextmanager
def _own_generation_config(model: PreTrainedModel, config: Any) -> Iterator[None]:
    """Generate with exactly this config: what a checkpoint's own one sets (a temperature of 0.6, a repetition
    penalty) would otherwise fill in whatever is left open."""
    saved = model.generation_config
    model.generation_config = config
    try:
        yield
    finally:
        model.generation_config = saved


@contextmanager
def _undisturbed(model: PreTrainedModel) -> Iterator[None]:
    """Evaluation mode, no gradients; random state and training mode restored afterwards. (no_grad, because
    what a model caches under inference_mode could not be trained through later.)"""
    import torch

    devices = [model.device] if model.device.type == "cuda" else []
    was_training = model.training
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        model.eval()
        try:
            yield
        finally:
            model.train(was_training)
