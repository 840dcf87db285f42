from __future__ import annotations

import json
import struct
from typing import Any

from .errors import SandboxError

_END_OF_STREAM = 2
_MAX_MESSAGE_BYTES = 64 * 1024 * 1024


def frame(message: Any) -> bytes:
    """A message in a frame of Connect's streams: one byte of flags, four of length, the message."""
    text = json.dumps(message).encode()
    return struct.pack(">BI", 0, len(text)) + text


class FrameReader:
    """Splits the bytes of a stream into its messages."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.is_ended = False

    def add(self, chunk: bytes) -> list[Any]:
        """Returns the messages that are complete now. Raises the error with which the stream ended."""
        self._data += chunk
        messages: list[Any] = []
        while len(self._data) >= 5:
            flags, length = struct.unpack_from(">BI", self._data)
            if length > _MAX_MESSAGE_BYTES:
                raise SandboxError("bad_reply", "A message of the stream is too long")
            if len(self._data) < 5 + length:
                break
            message = json.loads(bytes(self._data[5 : 5 + length]))
            del self._data[: 5 + length]
            if not flags & _END_OF_STREAM:
                messages.append(message)
                continue
            error = message.get("error")
            if error:
                raise SandboxError(error["code"], error.get("message") or error["code"])
            self.is_ended = True
        return messages
