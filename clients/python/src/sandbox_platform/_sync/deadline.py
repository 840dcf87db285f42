from __future__ import annotations

import threading
from typing import Any, Callable


class Deadline:
    """Ends something when its time is over, while the caller waits for that end."""

    def __init__(self, seconds: float | None, end: Callable[[], Any]) -> None:
        self._end = end
        self._timer = None if seconds is None else threading.Timer(seconds, self._run)
        self.is_over = False

    def __enter__(self) -> Deadline:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            # The timer refers to this object. Without the cycle, the streams of the caller end without the garbage
            # collector.
            self._timer = None

    def _run(self) -> None:
        self.is_over = True
        self._end()
