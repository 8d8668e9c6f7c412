"""recipes/accelerate: accelerate's own loader and launcher read them, and give the processes what the files say."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import DistributedType
from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env

from upside.training.recipe import RecipeError, load

FOLDER = Path(__file__).parents[2] / "recipes" / "accelerate"
KINDS = {
    "ddp": DistributedType.MULTI_GPU, "fsdp2": DistributedType.FSDP, "zero2": DistributedType.DEEPSPEED,
    "zero3": DistributedType.DEEPSPEED,
}  # fmt: skip


def launched(name: str) -> dict[str, str]:
    """The variables that `accelerate launch --config_file FILE --num_processes 4` sets."""
    words = ["--config_file", str(FOLDER / f"{name}.yaml"), "--num_processes", "4", "-m", "upside.cli", "train"]
    args, defaults, _ = _validate_launch_command(launch_command_parser().parse_args(words))
    assert args.num_processes == 4
    if args.use_deepspeed:
        args.deepspeed_fields_from_accelerate_config = ",".join(defaults.deepspeed_config)
        return prepare_deepspeed_cmd_env(args)[1]
    return prepare_multi_gpu_env(args)


def test_each_kind_has_one() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(KINDS)
    for name, kind in KINDS.items():
        config = load_config_from_file(str(FOLDER / f"{name}.yaml"))
        assert config.distributed_type == kind
        assert (config.num_processes, config.num_machines, config.mixed_precision) == (8, 1, "no")
        text = (FOLDER / f"{name}.yaml").read_text()
        assert f"accelerate launch --config_file recipes/accelerate/{name}.yaml" in text


def test_fsdp2() -> None:
    found = launched("fsdp2")
    expected = {
        "ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT",
        "FSDP_CPU_RAM_EFFICIENT_LOADING": "false", "FSDP_RESHARD_AFTER_FORWARD": "true",
        "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("stage", ["2", "3"])
def test_zero(stage: str) -> None:
    found = launched(f"zero{stage}")
    assert found["ACCELERATE_USE_DEEPSPEED"] == "true"
    assert found["ACCELERATE_DEEPSPEED_ZERO_STAGE"] == stage
    assert found.get("ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL", "false") == str(stage == "3").lower()


def test_ddp() -> None:
    found = launched("ddp")
    assert "ACCELERATE_USE_FSDP" not in found
    assert "ACCELERATE_USE_DEEPSPEED" not in found


def test_settings_of_vllm_go_through() -> None:
    server = ["sampler=vllm", "trl.vllm_mode=server", "trl.vllm_server_host=10.0.0.1", "trl.vllm_server_port=8000"]
    assert load("reasoner", server).trl["vllm_server_port"] == 8000
    colocate = ["sampler=vllm", "trl.vllm_mode=colocate", "trl.vllm_gpu_memory_utilization=0.4"]
    assert load("reasoner", colocate).trl["vllm_gpu_memory_utilization"] == 0.4
    with pytest.raises(RecipeError, match=r"trl\.vllm_mode: 'colocated' is unknown"):
        load("reasoner", ["sampler=vllm", "trl.vllm_mode=colocated"])
    with pytest.raises(RecipeError, match=r"trl\.vllm_mode: has no effect with sampler=upside; use sampler=vllm"):
        load("reasoner", ["trl.vllm_mode=server"])
    with pytest.raises(RecipeError, match=r"unknown key 'vllm_mod'; did you mean .*vllm_mode"):
        load("reasoner", ["sampler=vllm", "trl.vllm_mod=server"])
