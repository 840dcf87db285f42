from __future__ import annotations

import os
import uuid
from contextlib import contextmanager
from typing import BinaryIO, Iterator


def staged_name(target: str) -> str:
    """A name beside ``target`` for something incomplete."""
    return os.path.join(os.path.dirname(target), f".sandbox-platform-{uuid.uuid4()}")


def create_file(name: str, mode: int) -> BinaryIO:
    """A new file. The umask limits the mode. Raises FileExistsError also for a link that leads nowhere."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(name, flags, mode), "wb")


@contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Replaces a local file when its content is complete. Links are followed; devices and pipes are written to."""
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as file:
            yield file
        return
    mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o666
    staged = staged_name(target)
    try:
        with create_file(staged, mode) as file:
            yield file
        os.replace(staged, target)
    except BaseException:
        remove_if_there(staged)
        raise


def remove_if_there(name: str) -> None:
    try:
        os.unlink(name)
    except FileNotFoundError:
        pass
