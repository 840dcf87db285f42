from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable


class AsyncDeadline:
    """Ends a command when its time is over, while the caller waits for its end."""

    def __init__(self, seconds: float | None, end: Callable[[], Awaitable[Any]]) -> None:
        self._seconds = seconds
        self._end = end
        self._task: asyncio.Task[None] | None = None
        self.is_over = False

    async def __aenter__(self) -> AsyncDeadline:
        if self._seconds is not None:
            self._task = asyncio.create_task(self._run(self._seconds))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.is_over = True
        await self._end()
