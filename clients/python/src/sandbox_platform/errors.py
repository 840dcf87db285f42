from __future__ import annotations

import json
from typing import Any, Mapping


class SandboxError(Exception):
    """Every failure of this client.

    ``code`` is for programs: the codes of the API and the gateway, those of the agent (``not_found``,
    ``unauthenticated``, ...), and the client's own: ``connection_failed``, ``timed_out``, ``command_failed``,
    ``sandbox_failed``, ``bad_reply``, ``copy_failed``, ``not_configured``. Code and message may come from a sandbox, so they contain no
    control characters, which a terminal would obey.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        details: list[dict[str, str]] | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.code = _printable(str(code))
        self.message = _printable(str(message))
        super().__init__(self.message)
        #: The HTTP status, if a server replied.
        self.status = status
        #: The id by which operators find the request.
        self.request_id = request_id
        #: The refused fields.
        self.details = details or []
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"


def _printable(text: str) -> str:
    return "".join(
        each if each in "\n\t" or each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


class CommandFailedError(SandboxError):
    """With ``check``: a command ended with another exit code than 0."""

    def __init__(self, exit_code: int, stdout: str, stderr: str) -> None:
        super().__init__("command_failed", f"The command ended with exit code {exit_code}: {stderr[-2000:]}")
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr


# File errors of the agent only have a text.
_CODES = {
    400: "invalid_argument",
    401: "unauthenticated",
    403: "permission_denied",
    404: "not_found",
    507: "resource_exhausted",
}


def error_of_reply(status: int, headers: Mapping[str, str], text: str) -> SandboxError:
    """The error in a reply of the API, the gateway or the agent."""
    body: dict[str, Any] = {}
    try:
        parsed = json.loads(text)
        body = parsed if isinstance(parsed, dict) else {}
    except ValueError:
        pass  # The reply is from a proxy and has another format.
    message = body.get("error") or body.get("message") or text[:500] or "no text"
    code = body.get("code")
    details = body.get("details")
    try:
        retry_after = float(headers["retry-after"]) if "retry-after" in headers else None
    except ValueError:
        retry_after = None
    return SandboxError(
        code if isinstance(code, str) else _CODES.get(status, f"http_{status}"),
        f"{message} (HTTP {status})",
        status=status,
        request_id=body.get("request_id"),
        details=details if isinstance(details, list) else None,
        retry_after=retry_after,
    )


def connection_error(address: str, cause: Exception) -> SandboxError:
    """There is no connection, or it broke off."""
    return SandboxError("connection_failed", f"{address}: {cause or type(cause).__name__}")
