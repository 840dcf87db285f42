from __future__ import annotations

import base64
import hashlib
import time


def file_signature(path: str, operation: str, token: str, expires_in: float | None) -> dict[str, str]:
    """The query that gives access to one file of the agent without the token."""
    return _query(f"{path}:{operation}:root:{token}", expires_in)


def port_signature(domain: str, path: str, operation: str, token: str, expires_in: float | None) -> dict[str, str]:
    """The query that gives access to a protected port: one exact path, or with ``/`` the whole port."""
    port_and_sandbox = domain.split(".", 1)[0]
    return _query(f"{path}:port-{operation}:{port_and_sandbox}:{token}", expires_in)


def _query(signed: str, expires_in: float | None) -> dict[str, str]:
    expiration = None if expires_in is None else str(int(time.time() + expires_in))
    text = signed if expiration is None else f"{signed}:{expiration}"
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    query = {"signature": f"v1_{digest}"}
    if expiration is not None:
        query["signature_expiration"] = expiration
    return query
