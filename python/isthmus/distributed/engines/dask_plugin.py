"""What Dask's scheduler and later workers run, pickled by value: where isthmus is missing they go on all the same."""

from __future__ import annotations

from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin

NAME = "isthmus.distributed"


class Enable(WorkerPlugin):  # type: ignore[misc]  # without distributed's types
    """Enables a worker when it starts."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy

    def setup(self, worker: Any) -> None:
        try:
            import isthmus
        except ImportError:
            return
        isthmus.distributed.enable("dask", self.policy)


def remember(name: str, plugin: bytes | None, dask_scheduler: Any) -> None:
    """Workers that come later get the plugin. register_worker_plugin() would also change those that are there."""
    if plugin is None:
        dask_scheduler.worker_plugins.pop(name, None)
    else:
        dask_scheduler.worker_plugins[name] = plugin
