from __future__ import annotations

import asyncio
import math
from typing import Any, Awaitable, Callable, Mapping, TypeVar

import httpx

from ..connection import HttpServer
from ..errors import SandboxError, connection_error, error_of_reply
from ..retries import pause_before_retry

Result = TypeVar("Result")

_CONNECT_TIMEOUT = 20.0
# Bytes of a reply that is an error or a report.
MAX_REPORT = 64 * 1024
# Bytes of a reply with one message.
MAX_REPLY = 64 * 1024 * 1024


async def read_body(response: httpx.Response, limit: int) -> bytes:
    """The body of a reply. A sandbox may send one without an end. Raises ``bad_reply`` after ``limit`` bytes."""
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > limit:
            raise SandboxError("bad_reply", f"The reply is longer than {limit} bytes")
    return bytes(body)


def new_client() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None), follow_redirects=False)


class AsyncExchange:
    """Sends a request and gives the reply, whose body is still to be read.

    ``read_timeout`` is the longest silence in seconds; None: any, because commands may be silent for hours.
    ``request_timeout`` is the same for a request with one reply. Raises a SandboxError with the code of an error reply,
    ``connection_failed``, or ``timed_out`` after ``request_timeout``.

    This is a class because asyncio closes all generators of a loop at the same time: a generator that waits for the end
    of another one fails then.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        server: HttpServer,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        content: Any = None,
        read_timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> None:
        sent = dict(headers)
        extensions: dict[str, Any] = {}
        if server.host is not None:
            sent["Host"] = server.host
            extensions["sni_hostname"] = server.host.partition(":")[0]
        self._client = client
        self._origin = server.origin
        self._request = client.build_request(
            method,
            server.origin + path,
            headers=sent,
            content=content,
            extensions=extensions,
            timeout=httpx.Timeout(None, connect=_CONNECT_TIMEOUT, read=read_timeout if request_timeout in (None, math.inf) else request_timeout),
        )
        self._request_timeout = request_timeout
        self._response: httpx.Response | None = None

    async def __aenter__(self) -> httpx.Response:
        try:
            response = await self._client.send(self._request, stream=True)
            self._response = response
            if response.status_code < 300:
                return response
            try:
                body = await read_body(response, MAX_REPORT)
                text = body.decode("utf-8", "replace")
            except SandboxError:
                text = ""
            finally:
                await response.aclose()
            raise error_of_reply(response.status_code, response.headers, text)
        except httpx.HTTPError as error:
            raise self._to_sandbox_error(error) from error

    async def __aexit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if self._response is not None:
            await self._response.aclose()
        if isinstance(error, httpx.HTTPError):
            raise self._to_sandbox_error(error) from error

    def _to_sandbox_error(self, error: httpx.HTTPError) -> SandboxError:
        if self._request_timeout is None or not isinstance(error, httpx.ReadTimeout):
            return connection_error(self._origin, error)
        request = f"{self._request.method} {self._request.url.path}"
        return SandboxError("timed_out", f"{request}: no reply within {self._request_timeout} s")


async def with_retries(work: Callable[[], Awaitable[Result]]) -> Result:
    """Tries again after temporary failures, with growing pauses. A ``Retry-After`` is respected."""
    attempt = 0
    while True:
        attempt += 1
        try:
            return await work()
        except SandboxError as error:
            pause = pause_before_retry(error, attempt)
            if pause is None:
                raise
        await asyncio.sleep(pause)
