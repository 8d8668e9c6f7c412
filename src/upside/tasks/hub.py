"""Rows of a data set on the Hugging Face hub, or of a local folder `owner/name` laid out like one.

`datasets` (4 and later) runs no code of a data set; columns of pictures and sounds are left out, the one that the
option `image` names is kept as it is stored and decoded by `upside.tasks.pictures`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from upside.tasks.readers import Source

_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
_TEST_SPLITS = ("test", "validation", "val", "valid", "dev")
_MEDIA = ("Image(", "Audio(", "Video(", "Pdf(")


@dataclass(frozen=True)
class HubPart:
    """One split on the hub. data_dir: the folder of it that is meant, where a data set has several."""

    split: str
    config: str | None = None
    data_dir: str | None = None


def parse_hub(spec: str) -> tuple[str, list[str]]:
    """`owner/name[:config][:split]` as ("owner/name", [config and split as given]). ValueError for other text."""
    name, *rest = spec.split(":")
    if not _NAME.fullmatch(name) or len(rest) > 2:
        raise ValueError(f"task 'hf:{spec}': write hf:owner/name, hf:owner/name:config or hf:owner/name:config:split")
    return name, rest


def hub_sources(
    spec: str, revision: str | None = None, pictures: Sequence[str] = ()
) -> tuple[list[Source], list[Source]]:
    """Training and test sources of `owner/name[:config][:split]`.

    A single part after the name is a configuration if the data set has one of that name, else a split. A split named
    test, validation or dev is a test set, any other a training set; without a split, `train` and the first of these.
    pictures: columns to keep although they hold pictures; others are left out.
    Raises ValueError when the data set, the configuration or the split is not there or cannot be reached.
    """
    name, rest = parse_hub(spec)
    config, split = [*rest, "", ""][:2]
    if len(rest) == 1 and config not in _configs(name, revision):
        config, split = "", config
    whole = f"hf:{spec}"
    if split:
        source = _source(whole, _load(name, HubPart(split, config or None), revision), pictures)
        return ([], [source]) if split.startswith(_TEST_SPLITS) else ([source], [])
    splits = _load(name, HubPart("", config or None), revision)
    test = next((s for s in _TEST_SPLITS if s in splits), None)
    train = "train" if "train" in splits else next((s for s in splits if s != test), None)
    sources = {key: _source(f"{whole} ({key})", splits[key], pictures) for key in (train, test) if key is not None}
    return [sources[train]] if train else [], [sources[test]] if test else []


def part_source(name: str, part: HubPart, revision: str | None = None, pictures: Sequence[str] = ()) -> Source:
    """The rows of one known split. pictures: columns to keep although they hold pictures."""
    words = [w for w in (part.config, part.data_dir, part.split) if w]
    return _source(":".join(["hf", name, *words]), _load(name, part, revision), pictures)


def _source(label: str, dataset: Any, pictures: Sequence[str]) -> Source:
    media = [column for column, feature in dataset.features.items() if any(m in repr(feature) for m in _MEDIA)]
    left_out = [column for column in media if column not in pictures]
    rows = dataset.remove_columns(left_out) if left_out else dataset
    if len(left_out) < len(media):
        return Source(label, label, "row", lambda: enumerate(_as_stored(rows), start=1))
    return Source(label, label, "row", lambda: enumerate(rows, start=1))


def _as_stored(rows: Any) -> Iterator[dict[str, Any]]:
    """Rows with their pictures as {"bytes", "path"}, not decoded."""
    for table in rows.with_format("arrow").iter(batch_size=64):
        yield from table.to_pylist()


def _configs(name: str, revision: str | None) -> Sequence[str]:
    datasets = _datasets()
    with _explained(name):
        names: Sequence[str] = datasets.get_dataset_config_names(name, revision=revision)
    return names


def _load(name: str, part: HubPart, revision: str | None) -> Any:
    datasets = _datasets()
    with _explained(name):
        return datasets.load_dataset(
            name, part.config, split=part.split or None, data_dir=part.data_dir, revision=revision
        )


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Whatever `datasets` raises becomes one ValueError that says what to do."""
    try:
        yield
    except Exception as error:
        text = " ".join(str(error).split())
        raise ValueError(
            f"hf:{name} cannot be loaded ({type(error).__name__}: {text:.300}). Are name, configuration and split "
            f"right, and does this machine reach the hub? With the files at hand, name them instead: FILE.parquet, or "
            f"a preset with path=FOLDER"
        ) from error


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise ImportError("hf: tasks need the package datasets: pip install datasets") from error
    return datasets
