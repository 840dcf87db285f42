from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any, Callable, Mapping, TypedDict

from .errors import SandboxError


class WebhookEvent(TypedDict):
    """An event, the body of a delivery. ``docs/webhooks.md`` has the fields of each type."""

    id: str
    type: str
    timestamp: str
    data: dict[str, Any]


def verify(body: str | bytes, headers: Mapping[str, str], key: str, tolerance: float) -> WebhookEvent:
    values = {name.lower(): value for name, value in headers.items()}
    try:
        names = ("webhook-id", "webhook-timestamp", "webhook-signature")
        event_id, timestamp, signatures = (values[name] for name in names)
        age = abs(time.time() - float(timestamp))
    except (KeyError, ValueError) as error:
        raise SandboxError("invalid_signature", f"A header is missing or malformed: {error}") from error
    if not age <= tolerance:
        raise SandboxError("invalid_signature", f"The delivery is {age:.0f} seconds old or early")
    raw = body.encode() if isinstance(body, str) else body
    is_valid = _check_with(key, f"{event_id}.{timestamp}.".encode() + raw)
    if not any(is_valid(signature) for signature in signatures.split(" ")):
        raise SandboxError("invalid_signature", "No signature of the delivery is valid for this key")
    event: WebhookEvent = json.loads(raw)
    return event


def _check_with(key: str, signed: bytes) -> Callable[[str], bool]:
    """A check of one signature such as ``v1,...`` or ``v1a,...``. Signatures of another kind are not valid."""
    kind, _, text = key.partition("_")
    if kind == "whsec":
        digest = hmac.new(base64.b64decode(text), signed, hashlib.sha256).digest()
        expected = f"v1,{base64.b64encode(digest).decode()}".encode()
        return lambda signature: hmac.compare_digest(signature.encode(), expected)
    if kind != "whpk":
        raise SandboxError("not_configured", "The key must be the public key (whpk_...) or the secret (whsec_...)")
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        message = "Checking with a public key needs the package cryptography; a secret (whsec_...) needs nothing"
        raise SandboxError("not_configured", message) from error
    public_key = Ed25519PublicKey.from_public_bytes(base64.b64decode(text))

    def check(signature: str) -> bool:
        version, _, encoded = signature.partition(",")
        try:
            public_key.verify(base64.b64decode(encoded, validate=True), signed)
            return version == "v1a"
        except (InvalidSignature, ValueError):
            return False

    return check
