# Generated from _async by generate_sync.py. Do not edit.
from __future__ import annotations

import json
import weakref
from typing import Any, Generator, Mapping

import httpx

from ..connection import HttpServer
from ..errors import SandboxError
from ..frames import FrameReader, frame
from ..stream_breaker import StreamBreaker
from .http_exchange import MAX_REPLY, Exchange, read_body, with_retries

# Calls that may be repeated if it is unknown whether the first one arrived.
_REPEATABLE = {
    "Filesystem/Stat",
    "Filesystem/ListDir",
    "Filesystem/Remove",
    "Process/List",
    "Process/Update",
}


class AgentClient:
    """The agent in one sandbox: Connect calls in JSON, uploads and downloads."""

    def __init__(self, client: httpx.Client, server: HttpServer, token: str, request_timeout: float) -> None:
        self._client = client
        self._server = server
        self._token = token
        self._request_timeout = request_timeout
        self._breakers: weakref.WeakSet[StreamBreaker] = weakref.WeakSet()
        self._streams: weakref.WeakSet[Generator[Any, None]] = weakref.WeakSet()

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: Any = None,
        read_timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> Exchange:
        sent = {"X-Access-Token": self._token, **(headers or {})}
        more: dict[str, Any] = {"headers": sent, "content": content, "read_timeout": read_timeout}
        more["request_timeout"] = request_timeout
        return Exchange(self._client, self._server, method, path, **more)

    def call(self, name: str, message: Mapping[str, Any], *, request_timeout: float | None = None) -> Any:
        """Sends one message and returns the reply. Raises a SandboxError with the agent's or the gateway's code."""
        more: dict[str, Any] = {
            "headers": {"Content-Type": "application/json"},
            "content": json.dumps(message).encode(),
            "request_timeout": self._request_timeout if request_timeout is None else request_timeout,
        }

        def work() -> Any:
            with self.request("POST", f"/sandboxagent.{name}", **more) as response:
                return json.loads(read_body(response, MAX_REPLY))

        return (with_retries(work) if name in _REPEATABLE else work())

    def stream(
        self,
        name: str,
        message: Mapping[str, Any],
        breaker: StreamBreaker | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Generator[Any, None]:
        """The messages of a server stream."""
        if breaker is not None:
            self._breakers.add(breaker)
        return self.keep(self._messages(name, message, breaker, headers or {}))

    def keep(self, stream: Generator[Any, None]) -> Generator[Any, None]:
        """Ends a stream at the latest when the client is closed."""
        self._streams.add(stream)
        return stream

    def close(self) -> None:
        """Ends the streams that are open."""
        for breaker in list(self._breakers):
            breaker.break_off()
        for messages in list(self._streams):
            try:
                messages.close()
            except (RuntimeError, ValueError):
                pass  # Another task reads it now, and gets the closed connection.

    def _messages(
        self, name: str, message: Mapping[str, Any], breaker: StreamBreaker | None, more_headers: Mapping[str, str]
    ) -> Generator[Any, None]:
        # Uses its own connection, so that no request is lost on a connection that the server is closing.
        headers = {
            **{"Content-Type": "application/connect+json", "Keepalive-Ping-Interval": "20", "Connection": "close"},
            "Accept-Result-Data": "1",
            **more_headers,
        }
        frames = FrameReader()
        more: dict[str, Any] = {"headers": headers, "content": frame(message)}
        if breaker is not None:
            more["read_timeout"] = breaker.timeout
        with self.request("POST", f"/sandboxagent.{name}", **more) as response:
            if breaker is not None:
                breaker.watch(response)
            for chunk in response.iter_raw():
                for received in frames.add(chunk):
                    yield received
        if not frames.is_ended:
            raise SandboxError("connection_failed", "The stream broke off")
