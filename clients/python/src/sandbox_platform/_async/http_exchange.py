from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator, Awaitable, Callable, Mapping, TypeVar

import httpx

from ..connection import HttpServer
from ..errors import SandboxError, connection_error, error_of_reply
from ..retries import pause_before_retry

Result = TypeVar("Result")

_CONNECT_TIMEOUT = 20.0


def new_client() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None), follow_redirects=False)


@asynccontextmanager
async def exchange(
    client: httpx.AsyncClient,
    server: HttpServer,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str],
    content: Any = None,
    read_timeout: float | None = None,
) -> AsyncIterator[httpx.Response]:
    """Sends a request and gives the reply, whose body is still to be read.

    ``read_timeout`` is the longest silence in seconds; None: any, because commands may be silent for hours. Raises a
    SandboxError with the code of an error reply, or ``connection_failed``.
    """
    sent = dict(headers)
    extensions: dict[str, Any] = {}
    if server.host is not None:
        sent["Host"] = server.host
        extensions["sni_hostname"] = server.host.partition(":")[0]
    try:
        async with client.stream(
            method,
            server.origin + path,
            headers=sent,
            content=content,
            extensions=extensions,
            timeout=httpx.Timeout(None, connect=_CONNECT_TIMEOUT, read=read_timeout),
        ) as response:
            if response.status_code >= 300:
                text = (await response.aread())[: 64 * 1024].decode("utf-8", "replace")
                raise error_of_reply(response.status_code, response.headers, text)
            yield response
    except httpx.HTTPError as error:
        raise connection_error(server.origin, error) from error


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
