"""Generates src/sandbox_platform/_sync, the client without asyncio, from _async. `--check` only compares."""

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent / "src" / "sandbox_platform"
# Written by hand on both sides, because the sync client uses threads instead of tasks.
OWN = {"__init__.py", "background.py", "deadline.py"}
REPLACEMENTS = [
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"import asyncio\b", "import time"),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"\bhttpx\.AsyncClient\b", "httpx.Client"),
    (r"\bAwaitable\[(\w+)\]", r"\1"),
    (r", Awaitable\b|\bAwaitable, ", ""),
    (r"\bAsync(Iterator|Generator)\b", r"\1"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\baclosing\b", "closing"),
    (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
    (r"\ba(close|read|iter_raw|iter_bytes)\(", r"\1("),
    (r"\bAsync(Sandbox|\w+)\b", r"\1"),
]


def sync_source(source: str) -> str:
    for pattern, replacement in REPLACEMENTS:
        source = re.sub(pattern, replacement, source)
    return source.replace(
        "from __future__ import annotations\n",
        "# Generated from _async by generate_sync.py. Do not edit.\nfrom __future__ import annotations\n",
        1,
    )


def main() -> int:
    stale = []
    for path in sorted((PACKAGE / "_async").glob("*.py")):
        if path.name in OWN:
            continue
        target = PACKAGE / "_sync" / path.name
        source = sync_source(path.read_text())
        if target.exists() and target.read_text() == source:
            continue
        stale.append(target.name)
        if "--check" not in sys.argv:
            target.write_text(source)
    if stale and "--check" in sys.argv:
        print(f"Not fresh, run generate_sync.py: {', '.join(stale)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
