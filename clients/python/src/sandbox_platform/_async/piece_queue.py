from __future__ import annotations

from collections import deque
from typing import AsyncIterator

from ..values import Output
from .background import new_condition

_MAX_PIECES = 65_536


class AsyncPieceQueue:
    """Output between the connection and the program that iterates over it.

    While somebody reads, ``add`` waits for the reader. Otherwise the oldest pieces are dropped.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._pieces: deque[Output] = deque()
        self._bytes = 0
        self._readers = 0
        self._is_over = False
        self._changed = new_condition()

    async def add(self, piece: Output) -> None:
        if not piece.data:
            return
        async with self._changed:
            self._pieces.append(piece)
            self._bytes += len(piece.data)
            self._changed.notify_all()
            while self._readers > 0 and self._pieces:
                await self._changed.wait()
            while self._bytes > self._max_bytes or len(self._pieces) > _MAX_PIECES:
                self._take()

    async def end(self) -> None:
        async with self._changed:
            self._is_over = True
            self._changed.notify_all()

    async def read(self) -> AsyncIterator[Output]:
        async with self._changed:
            self._readers += 1
        try:
            while True:
                async with self._changed:
                    while not self._pieces and not self._is_over:
                        await self._changed.wait()
                    piece = self._take() if self._pieces else None
                if piece is None:
                    return
                yield piece
        finally:
            async with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    def _take(self) -> Output:
        piece = self._pieces.popleft()
        self._bytes -= len(piece.data)
        if not self._pieces:
            self._changed.notify_all()
        return piece
