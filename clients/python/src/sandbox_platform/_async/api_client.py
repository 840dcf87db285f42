from __future__ import annotations

import json
import re
import uuid
from typing import Any, AsyncIterator, Mapping
from urllib.parse import quote, urlencode, urlsplit

import httpx

from .._generated.api import OPERATIONS
from ..connection import Connection, HttpServer
from ..errors import SandboxError
from .http_exchange import MAX_REPLY, AsyncExchange, read_body, with_retries


class AsyncApiClient:
    """The control plane. Requests that create objects have an Idempotency-Key, so they may be repeated."""

    def __init__(self, connection: Connection, client: httpx.AsyncClient) -> None:
        self.connection = connection
        self.client = client

    async def call(
        self,
        operation: str,
        *,
        path: Mapping[str, str | int] | None = None,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        request_timeout: float | None = None,
    ) -> Any:
        """Calls an operation of the OpenAPI document and returns the ``data`` of its reply."""
        method, template = OPERATIONS[operation]
        target = re.sub(r"\{(\w+)\}", lambda name: quote(str((path or {})[name[1]]), safe=""), template)
        if query:
            target += f"?{urlencode(query)}"
        api = urlsplit(self.connection.api_url)
        server = HttpServer(f"{api.scheme}://{api.netloc}", None)
        headers = {"Accept": "application/json", **_authorization(self.connection.api_key)}
        if method == "POST":
            headers["Idempotency-Key"] = str(uuid.uuid4())
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body).encode()

        target = api.path.rstrip("/") + target
        more: dict[str, Any] = {"headers": headers, "content": content}
        more["request_timeout"] = self.connection.request_timeout if request_timeout is None else request_timeout

        async def work() -> bytes:
            async with AsyncExchange(self.client, server, method, target, **more) as response:
                return await read_body(response, MAX_REPLY)

        reply = await with_retries(work)
        try:
            return json.loads(reply).get("data")
        except ValueError as error:
            raise SandboxError("bad_reply", f"{method} {target}: the reply is no JSON") from error

    async def all_pages(
        self, operation: str, name: str, query: Mapping[str, Any], request_timeout: float | None
    ) -> AsyncIterator[Any]:
        """The items of all pages of a list, which are in the field ``name``.

        What ends or begins meanwhile neither hides nor repeats other items.
        """
        given = {key: value for key, value in query.items() if value is not None}
        cursor: str | None = None
        while True:
            page = {"limit": 100} if cursor is None else {"limit": 100, "cursor": cursor}
            found = await self.call(operation, query={**given, **page}, request_timeout=request_timeout)
            for item in found[name]:
                yield item
            cursor = found["pagination"]["next_cursor"]
            if cursor is None:
                return


def _authorization(api_key: str) -> dict[str, str]:
    """Access tokens of a sign-in are JWTs. All other keys are API keys."""
    if api_key.startswith("eyJ"):
        return {"Authorization": f"Bearer {api_key}"}
    return {"X-API-Key": api_key}
