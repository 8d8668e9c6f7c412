"""`upside check verl`: is the plug-in loaded where it must be, and does this verl have the seams it uses?"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

TESTED = "0.9.1"
INSTALL = "pip install 'upside[verl]'"
PLUGINS = "VERL_USE_EXTERNAL_PLUGINS"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. detail: what was found. remedy: what to do when it is not ok."""

    what: str
    ok: bool
    detail: str
    remedy: str = ""


SEAMS: tuple[tuple[str, str, str], ...] = (
    ("verl.trainer.ppo.core_algos", "register_adv_est", "estimators under names of their own"),
    ("verl.trainer.ppo.v1.trainer_base", "register_trainer", "trainer.v1.trainer_mode=upside"),
    ("verl.trainer.ppo.v1.trainer_sync", "PPOTrainerSync._compute_advantage", "fields beside rewards and lengths"),
    ("verl.trainer.ppo.v1.trainer_sync", "PPOTrainerSync._setup", "the reference's own servers"),
    ("verl.trainer.ppo.v1.trainer_sync", "PPOTrainerSync._save_checkpoint", "state saved with checkpoints"),
    ("verl.trainer.ppo.v1.trainer_sync", "PPOTrainerSync._load_checkpoint", "state restored on resume"),
    ("verl.workers.rollout.llm_server", "LLMServerManager.create", "AAPO's fresh reference responses"),
    ("transfer_queue", "kv_batch_get", "entropy and the reward function's dict"),
)
"""Module, name in it, and what stands on it."""


def findings(address: str | None = None) -> Iterator[Finding]:
    """What holds on this machine, in the order in which things depend on each other; ends early without verl or Ray.

    address: of a running Ray cluster; None: RAY_ADDRESS, else a small one started here and stopped again.
    """
    missing = [name for name in ("verl", "ray") if importlib.util.find_spec(name) is None]
    if missing:
        yield Finding("installed", False, f"{' and '.join(missing)} not found", INSTALL)
        return
    yield _version()
    yield _entry_point()
    yield _policy()
    importlib.import_module("verl")
    yield _loaded("driver", state())
    for module, name, use in SEAMS:
        yield _seam(module, name, use)
    yield _worker(address)


def state() -> dict[str, object]:
    """What the plug-in registered in this process after `import verl`."""
    importlib.import_module("verl")
    plugin = sys.modules.get("upside.engines.verl.plugin")
    if plugin is None:
        return {"loaded": False, "names": [], "failed": {}, "python": sys.executable}
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

    known = [name for name in plugin.REGISTERED if name in ADV_ESTIMATOR_REGISTRY]
    return {"loaded": True, "names": known, "failed": dict(plugin.FAILED), "python": sys.executable}


def _version() -> Finding:
    version = importlib.metadata.version("verl")
    ok = version == TESTED
    detail = f"verl {version}, ray {importlib.metadata.version('ray')}"
    return Finding("version", True, detail if ok else f"{detail} (tested with verl {TESTED}; the seams below decide)")


def _entry_point() -> Finding:
    found = [point for point in importlib.metadata.entry_points(group="verl.plugins") if point.name == "upside"]
    detail = (
        f"verl.plugins: {found[0].value}" if found else "this installation of upside has no entry point verl.plugins"
    )
    return Finding("entry point", bool(found), detail, f"install upside again, as a package: {INSTALL}")


def _policy() -> Finding:
    value = os.environ.get(PLUGINS, "auto").strip()
    ok = value.lower() == "auto" or "upside" in [name.strip() for name in value.lower().split(",")]
    return Finding("plug-ins allowed", ok, f"{PLUGINS}={value}", f"unset {PLUGINS}, or add upside to its names")


def _loaded(where: str, found: dict) -> Finding:
    failed = {what: str(why).splitlines()[0] for what, why in found["failed"].items()}
    if not found["loaded"]:
        remedy = f"install upside in the environment that runs there ({found['python']}): {INSTALL}"
        return Finding(f"loaded in the {where}", False, "import verl did not load the plug-in", remedy)
    detail = f"{len(found['names'])} estimators"
    if failed:
        detail = "; ".join(f"{what}: {why}" for what, why in failed.items())
    return Finding(f"loaded in the {where}", not failed and bool(found["names"]), detail, f"repair that, or {INSTALL}")


def _seam(module: str, name: str, use: str) -> Finding:
    try:
        target: object = importlib.import_module(module)
        for part in name.split("."):
            target = getattr(target, part)
        ok, detail = callable(target), use
    except Exception as error:
        ok, detail = False, f"{use}: {type(error).__name__}: {error}"
    return Finding(f"seam {module}.{name}", ok, detail, f"install verl {TESTED}: {INSTALL}")


def _worker(address: str | None) -> Finding:
    import ray

    try:
        if address or os.environ.get("RAY_ADDRESS"):
            ray.init(address=address, log_to_driver=False)
        else:
            ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
        return _loaded("Ray worker", ray.get(ray.remote(num_cpus=0)(state).remote(), timeout=180))
    except Exception as error:
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else ""
        remedy = "the workers need the driver's environment: install upside and verl there, or see Ray's own log"
        return Finding("loaded in the Ray worker", False, f"{type(error).__name__}: {reason}", remedy)
    finally:
        ray.shutdown()
