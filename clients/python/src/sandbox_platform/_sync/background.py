from __future__ import annotations

import threading
from typing import Callable


class Background:
    """Work beside the program."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Waits for the end of the work, and raises its error."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._error = error


def new_condition() -> threading.Condition:
    return threading.Condition()
