from __future__ import annotations

import random

from .errors import SandboxError

ATTEMPTS = 5
_FIRST_DELAY = 0.2
_MAX_DELAY = 10.0
_PASSING = {"connection_failed", "idempotency_key_in_use", "rate_limited", "too_many_requests", "sandbox_busy"}
_PASSING_STATUS = {429, 502, 503, 504}
# Errors with one of these statuses that a retry cannot change.
_LASTING = {"sandbox_not_running", "concurrent_limit_reached", "sandbox_bad_response", "no_capacity"}


def pause_before_retry(error: SandboxError, attempt: int) -> float | None:
    """Seconds to wait after the failure of this attempt, counted from 1. None: the failure is final."""
    is_passing = error.code in _PASSING or error.status in _PASSING_STATUS
    if attempt >= ATTEMPTS or not is_passing or error.code in _LASTING:
        return None
    asked = error.retry_after or 0
    # A longer wait is the caller's decision.
    if asked > _MAX_DELAY:
        return None
    pause: float = max(asked, min(_FIRST_DELAY * 2.0 ** (attempt - 1) * (1 + random.random()), _MAX_DELAY))
    return pause
