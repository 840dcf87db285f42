# Generated from _async by generate_sync.py. Do not edit.
from __future__ import annotations

from typing import Literal, Mapping
from urllib.parse import unquote, urlencode

import httpx

from .._generated.api import Port, SandboxPorts
from ..connection import public_url, server_of
from ..signed_url import port_signature
from .api_client import ApiClient
from .http_exchange import Exchange


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
        content: bytes | None = None,
    ) -> httpx.Response:
        """Sends a request to a port, with the token. The name of the sandbox need not resolve."""
        server = server_of(f"{port}-{self._domain}", self._api.connection)
        sent = {"X-Access-Token": self._token, **(headers or {})}
        with Exchange(self._api.client, server, method, path, headers=sent, content=content) as response:
            response.read()
            return response

    def list(self) -> SandboxPorts:
        found: SandboxPorts = self._api.call("listSandboxPorts", path={"sandbox_id": self._id})
        return found

    def add(
        self,
        port: int,
        name: str,
        *,
        protocol: Literal["TCP", "UDP", "WEBRTC"] = "TCP",
        service_port: int | None = None,
        is_protected: bool = False,
    ) -> Port:
        """Declares a port, as public or protected."""
        body = {"port": port, "name": name, "protocol": protocol, "is_protected": is_protected}
        if service_port is not None:
            body["service_port"] = service_port
        added: Port = (self._api.call("addSandboxPort", path={"sandbox_id": self._id}, body=body))["port"]
        return added

    def remove(self, port: int) -> None:
        self._api.call("removeSandboxPort", path={"sandbox_id": self._id, "port": port})
