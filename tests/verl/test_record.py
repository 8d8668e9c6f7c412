"""The run folder as verl's trainer writes it."""

import json

import pyarrow.parquet
import pytest
from PIL import Image

import upside
from upside.engines.verl.estimators import Estimate
from upside.engines.verl.launch import _write_pictures
from upside.engines.verl.record import Recorder
from upside.tasks import load_task


@pytest.mark.parametrize("seeing", [True, False])
def test_rollouts_refer_to_the_pictures_of_their_prompts(tmp_path, seeing):
    problems = load_task("shapes", size=256).problems("train", 2)
    _write_pictures(tmp_path / "data", problems)
    (tmp_path / "rollouts").mkdir()
    batch = upside.Rollouts([1.0, 0.0, 0.0, 1.0], [0, 0, 1, 1], lengths=[3, 4, 5, 6], truncated=[False] * 4, step=1)
    estimator = upside.estimator("grpo")
    order = [2, 0, 3, 1]  # verl's rows: of the second prompt, the first, …
    files = [[f"{problems[row % 2].images[0].digest()}.png"] if seeing else [] for row in order]
    recorder = Recorder(str(tmp_path), estimator)
    recorder.start()
    rows = [order.index(row) for row in (0, 2, 1, 3)]
    texts = [f"response {row}" for row in order]
    recorder.keep(Estimate(rows, batch, estimator(batch)), ["area?"] * 4, texts, [None] * 4, [None] * 4, files)
    recorder.write({"actor/entropy": 0.5}, {"gen": 1.0})
    table = pyarrow.parquet.read_table(tmp_path / "rollouts" / "step-00001.parquet").to_pydict()
    assert table["response"] == ["response 0", "response 2", "response 1", "response 3"]
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["entropy"] == 0.5
    if not seeing:
        assert "images" not in table
        return
    shown = [Image.open(tmp_path / file).tobytes() for (file,) in table["images"]]
    assert shown == [problems[row].images[0].load().tobytes() for row in (0, 0, 1, 1)]
