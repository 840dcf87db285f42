from __future__ import annotations

import asyncio
from typing import Any, Callable, Coroutine

# The loop itself keeps only weak references to tasks.
_tasks: set[asyncio.Task[None]] = set()


class AsyncBackground:
    """Work beside the program."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._task = asyncio.create_task(work())
        _tasks.add(self._task)
        self._task.add_done_callback(_forget)

    async def wait(self) -> None:
        """Waits for the end of the work, and raises its error."""
        await asyncio.shield(self._task)


def _forget(task: asyncio.Task[None]) -> None:
    _tasks.discard(task)
    if not task.cancelled():
        task.exception()  # `wait` raises the error. Without this call, asyncio logs it.


def new_condition() -> asyncio.Condition:
    return asyncio.Condition()
