# Generated from _async by generate_sync.py. Do not edit.
from __future__ import annotations

import time
import time
from typing import Any, Literal, Mapping
from urllib.parse import unquote, urlencode

import httpx

from .._generated.api import Port, SandboxPorts
from ..connection import public_url, server_of
from ..errors import SandboxError
from ..signed_url import port_signature
from .api_client import ApiClient
from .http_exchange import Exchange

# Replies of the gateway while nothing listens yet, or while it cannot say. `timed_out` is the time of one request.
_NOT_YET = {
    *("sandbox_port_closed", "sandbox_unreachable", "sandbox_busy", "too_many_requests", "temporarily_unavailable"),
    *("connection_failed", "timed_out"),
}
# Replies of the gateway that waiting does not change.
_LASTING = {"sandbox_not_running", "sandbox_not_found", "owner_disabled", "port_not_http"}


class Ports:
    """Programs of the sandbox that listen on a port."""

    def __init__(self, api: ApiClient, sandbox_id: str, domain: str, token: str) -> None:
        self._api = api
        self._id = sandbox_id
        self._domain = domain
        self._token = token

    def url(
        self,
        port: int,
        path: str = "/",
        *,
        signed: Literal["read", "write"] | None = None,
        expires_in: float | None = None,
    ) -> str:
        """The URL of a port, for browsers and other programs that resolve the name.

        An undeclared port, and a protected one, ask for the token: ``signed`` makes a URL that carries a
        signature for one path, or for all with ``/``.
        """
        domain = f"{port}-{self._domain}"
        address = f"{public_url(domain, self._api.connection)}{path}"
        if signed is None:
            return address
        query = port_signature(domain, unquote(path.partition("?")[0]), signed, self._token, expires_in)
        return f"{address}{'&' if '?' in path else '?'}{urlencode(query)}"

    def request(
        self,
        port: int,
        path: str = "/",
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> httpx.Response:
        """Sends a request to a port, with the token. The name of the sandbox need not resolve."""
        server = server_of(f"{port}-{self._domain}", self._api.connection)
        sent = {"X-Access-Token": self._token, **(headers or {})}
        with Exchange(self._api.client, server, method, path, headers=sent, content=body) as response:
            response.read()
            return response

    def wait_for(self, port: int, *, timeout: float = 60.0) -> str:
        """Waits until a program listens on a port, and returns the URL of the port.

        Raises ``timed_out`` after ``timeout`` seconds.
        """
        end = time.monotonic() + timeout
        pause = 0.02
        while not self._listens(port, end - time.monotonic()):
            rest = end - time.monotonic()
            if rest <= 0:
                raise SandboxError("timed_out", f"Nothing listens on port {port} after {timeout} s")
            time.sleep(min(pause, rest))
            pause = min(2 * pause, 0.5)
        return self.url(port)

    def _listens(self, port: int, timeout: float) -> bool:
        """Whether a program of the sandbox, and not the gateway, answers."""
        server = server_of(f"{port}-{self._domain}", self._api.connection)
        more: dict[str, Any] = {"headers": {"X-Access-Token": self._token}, "request_timeout": max(timeout, 0.01)}
        try:
            with Exchange(self._api.client, server, "GET", "/", **more):
                return True
        except SandboxError as error:
            if error.code in _LASTING:
                raise
            # Every other error is a reply of the program.
            return error.code not in _NOT_YET

    def list(self, *, request_timeout: float | None = None) -> SandboxPorts:
        found: SandboxPorts = self._call("listSandboxPorts", request_timeout)
        return found

    def add(
        self,
        port: int,
        name: str,
        *,
        protocol: Literal["TCP", "UDP", "WEBRTC"] = "TCP",
        service_port: int | None = None,
        is_protected: bool = False,
        request_timeout: float | None = None,
    ) -> Port:
        """Declares a port, as public or protected."""
        body = {"port": port, "name": name, "protocol": protocol, "is_protected": is_protected}
        if service_port is not None:
            body["service_port"] = service_port
        added: Port = (self._call("addSandboxPort", request_timeout, body=body))["port"]
        return added

    def remove(self, port: int, *, request_timeout: float | None = None) -> None:
        self._call("removeSandboxPort", request_timeout, port=port)

    def _call(self, operation: str, request_timeout: float | None, *, port: int = 0, body: Any = None) -> Any:
        path: dict[str, str | int] = {"sandbox_id": self._id, "port": port}
        return self._api.call(operation, path=path, body=body, request_timeout=request_timeout)
