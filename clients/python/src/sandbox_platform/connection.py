from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import urlsplit

from .errors import SandboxError


@dataclass(frozen=True)
class Connection:
    """Where the platform is and who calls it."""

    api_url: str
    api_key: str
    gateway_url: str | None


@dataclass(frozen=True)
class HttpServer:
    """A place that answers HTTP; ``host`` is what it is asked for as, when that is not its address."""

    origin: str
    host: str | None


def read_connection(api_url: str | None, api_key: str | None, gateway_url: str | None) -> Connection:
    """What is not given comes from ``PLATFORM_URL``, ``PLATFORM_API_KEY`` and ``PLATFORM_GATEWAY``."""
    url = api_url or os.environ.get("PLATFORM_URL")
    key = api_key or os.environ.get("PLATFORM_API_KEY")
    if not url or not key:
        missing = "api_key (PLATFORM_API_KEY)" if url else "api_url (PLATFORM_URL)"
        raise SandboxError(
            "not_configured",
            f"The client needs {missing}; the platform writes both to platform.env: set -a; . .data/platform.env; set +a",
        )
    return Connection(url.rstrip("/"), key, gateway_url or os.environ.get("PLATFORM_GATEWAY") or None)


def server_of(domain: str, connection: Connection) -> HttpServer:
    """Where requests to a sandbox go.

    Names below ``.localhost`` mean the machine that answers, and not every resolver knows them, so they lead to the
    API's own host; the gateway finds the sandbox by the ``Host`` field.
    """
    if connection.gateway_url is not None:
        gateway = urlsplit(connection.gateway_url)
        return HttpServer(f"{gateway.scheme}://{gateway.netloc}", domain)
    name, _, port = domain.partition(":")
    api = urlsplit(connection.api_url)
    if not name.endswith(".localhost"):
        return HttpServer(f"{api.scheme}://{domain}", None)
    host = f"[{api.hostname}]" if ":" in (api.hostname or "") else api.hostname
    return HttpServer(f"{api.scheme}://{host}{':' + port if port else ''}", domain)


def public_url(domain: str, connection: Connection) -> str:
    """The URL that programs which resolve the sandbox's name open, as browsers do."""
    return f"{urlsplit(connection.gateway_url or connection.api_url).scheme}://{domain}"
