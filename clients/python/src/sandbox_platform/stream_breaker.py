from __future__ import annotations

import socket

import httpx


class StreamBreaker:
    """Breaks off a stream while another thread or task reads it: a generator that runs cannot be closed."""

    def __init__(self, timeout: float | None = None) -> None:
        #: Seconds of silence that end the request, also before the reply has begun, when there is nothing to break off.
        self.timeout = timeout
        self._response: httpx.Response | None = None
        self.is_broken = False

    def watch(self, response: httpx.Response) -> None:
        """The reply to break off; one that comes after ``break_off`` is broken off at once."""
        self._response = response
        if self.is_broken:
            self._shut_down(response)

    def break_off(self) -> None:
        """Whoever reads the stream gets ``connection_failed``."""
        self.is_broken = True
        if self._response is not None:
            self._shut_down(self._response)

    @staticmethod
    def _shut_down(response: httpx.Response) -> None:
        connection = response.extensions["network_stream"].get_extra_info("socket")
        try:
            # The method of an `ssl.SSLSocket` would take the TLS object away from the reader.
            if isinstance(connection, socket.socket):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
            elif connection is not None:
                connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # It is closed already.
