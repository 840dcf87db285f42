from __future__ import annotations

import socket

import httpx


class StreamBreaker:
    """Ends a stream that another thread or task is reading, because a running generator cannot be closed."""

    def __init__(self, timeout: float | None = None) -> None:
        #: The request ends after this many seconds of silence. This also works before the reply has begun.
        self.timeout = timeout
        self._response: httpx.Response | None = None
        self.is_broken = False

    def watch(self, response: httpx.Response) -> None:
        """Sets the reply that ``break_off`` ends. A reply that arrives after ``break_off`` is ended at once."""
        self._response = response
        if self.is_broken:
            self._shut_down(response)

    def break_off(self) -> None:
        """Ends the stream. Its reader gets ``connection_failed``."""
        self.is_broken = True
        if self._response is not None:
            self._shut_down(self._response)

    @staticmethod
    def _shut_down(response: httpx.Response) -> None:
        connection = response.extensions["network_stream"].get_extra_info("socket")
        try:
            # `shutdown` of an `ssl.SSLSocket` would remove the TLS object that the reader still uses.
            if isinstance(connection, socket.socket):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
            elif connection is not None:
                connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # The connection is closed already.
