"""Runs as tasks of Ray: on an existing cluster, or on a local one that ends with this process."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

from upside.analysis.comparison.plan import ComparisonError
from upside.analysis.comparison.processes import Job, run_here


class Cluster:
    """A connection to Ray. address: of a running cluster; None: RAY_ADDRESS, else Ray is started here.

    Each run takes `threads` CPUs, and one GPU where the cluster has any. The output folder, the working folder and the
    model must be on a path that every machine sees. Raises ComparisonError where ray is not installed.
    """

    def __init__(self, address: str | None, threads: int) -> None:
        if find_spec("ray") is None:
            raise ComparisonError("--ray: ray is not installed; install it with: pip install 'upside[ray]'")
        import ray

        self.started = not ray.is_initialized()
        if self.started:
            address = address or os.environ.get("RAY_ADDRESS") or "local"
            options: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
            try:
                ray.init(address=address, log_to_driver=False, logging_level="error", **options)
            except ConnectionError as error:
                raise ComparisonError(f"--ray-address: no Ray cluster answers at {address} ({error})") from None
        gpus = 1 if ray.cluster_resources().get("GPU", 0) >= 1 else 0
        self.threads = threads
        self.task = ray.remote(num_cpus=threads, num_gpus=gpus, max_retries=0)(run_here)
        there = ray.cluster_resources().get("CPU", 0)
        if there < threads:
            raise ComparisonError(f"--threads: {threads} a run, and Ray has {there:g} CPUs; use fewer")

    def start(self, job: Job) -> RemoteRun:
        return RemoteRun(self.task.remote(job, self.threads))

    def close(self) -> None:
        import ray

        if self.started:
            ray.shutdown()


class RemoteRun:
    """A run that Ray has been given."""

    def __init__(self, reference: Any) -> None:
        self.reference = reference

    def poll(self) -> int | None:
        import ray
        from ray.exceptions import RayError, TaskCancelledError

        if not ray.wait([self.reference], timeout=0)[0]:
            return None
        try:
            return int(ray.get(self.reference))
        except TaskCancelledError:
            return 130
        except RayError as error:
            self.failure = str(error)
            return 1

    def stop(self) -> None:
        import ray

        ray.cancel(self.reference)

    def kill(self) -> None:
        import ray

        ray.cancel(self.reference, force=True)
