"""What Dask's scheduler and workers run, pickled by value: where isthmus is missing they go on all the same."""

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


def reader() -> type:
    """The type in the header of a tensor, for which Dask looks up how it is read. Without isthmus it is read as an
    object that says so when it is used: Dask would ask for what it cannot read again and again."""
    try:
        from isthmus.distributed.engines.dask import Message
    except ImportError:
        return _without_isthmus()
    return Message


def _without_isthmus() -> type:
    import distributed
    from distributed.protocol import dask_deserialize

    known = getattr(distributed, "_without_isthmus", None)
    if known is not None:
        return known  # type: ignore[no-any-return]
    words = (
        "this process was sent a tensor by isthmus.distributed, and cannot read it: isthmus is not installed here; "
        "install it with pip"
    )

    class IsthmusIsNotInstalled:
        def __getattr__(self, name: str) -> Any:
            raise AttributeError(words)

        def __array__(self, *_: Any, **__: Any) -> Any:
            raise TypeError(words)

        def __reduce_ex__(self, protocol: Any) -> Any:
            raise TypeError(words)

        def __repr__(self) -> str:
            return f"<{words}>"

    dask_deserialize.register(IsthmusIsNotInstalled)(lambda header, frames: IsthmusIsNotInstalled())
    distributed._without_isthmus = IsthmusIsNotInstalled
    return IsthmusIsNotInstalled
