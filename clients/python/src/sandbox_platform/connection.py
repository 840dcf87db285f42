from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import urlsplit

from .errors import SandboxError


@dataclass(frozen=True)
class Connection:
    """The platform's addresses and the caller's key."""

    api_url: str
    api_key: str
    gateway_url: str | None
    #: Seconds without a reply after which a request fails.
    request_timeout: float


_REQUEST_TIMEOUT = 120.0


@dataclass(frozen=True)
class HttpServer:
    """An HTTP server. ``host`` is the value of the Host field, if it differs from the address."""

    origin: str
    host: str | None


def read_connection(
    api_url: str | None, api_key: str | None, gateway_url: str | None, request_timeout: float | None
) -> Connection:
    """Defaults come from ``PLATFORM_URL``, ``PLATFORM_API_KEY`` and ``PLATFORM_GATEWAY``."""
    url = api_url or os.environ.get("PLATFORM_URL")
    key = api_key or os.environ.get("PLATFORM_API_KEY")
    if not url or not key:
        missing = "api_key (PLATFORM_API_KEY)" if url else "api_url (PLATFORM_URL)"
        raise SandboxError(
            "not_configured",
            f"The client needs {missing}; the platform writes both to platform.env: set -a; . .data/platform.env; set +a",
        )
    gateway = gateway_url or os.environ.get("PLATFORM_GATEWAY")
    return Connection(
        _checked_url(url, "api_url (PLATFORM_URL)").rstrip("/"),
        # A key that was read from a file often ends with a line break, which HTTP refuses.
        key.strip(),
        _checked_url(gateway, "gateway_url (PLATFORM_GATEWAY)") if gateway else None,
        _REQUEST_TIMEOUT if request_timeout is None else request_timeout,
    )


def _checked_url(url: str, name: str) -> str:
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise SandboxError("not_configured", f"{name} must be a URL like http://127.0.0.1:7080, not {url}")
    return url


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
    """The URL for programs that can resolve the sandbox's name, such as browsers."""
    return f"{urlsplit(connection.gateway_url or connection.api_url).scheme}://{domain}"
