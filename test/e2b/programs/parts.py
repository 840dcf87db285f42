"""Runs the parts of a program and prints their outcomes, and the methods that they called."""

import asyncio
import json
import time
import traceback
import typing

Part = typing.Callable[[], typing.Awaitable[None]]


async def run_parts(parts: list[Part], called: typing.Iterable[str], at_once: bool) -> None:
    """Prints JSON, the last line of the output."""

    async def outcome(part: Part) -> tuple[str, str | None]:
        try:
            await part()
            return part.__name__, None
        except Exception:
            return part.__name__, traceback.format_exc()

    if at_once:
        outcomes = await asyncio.gather(*map(outcome, parts))
    else:
        outcomes = [await outcome(part) for part in parts]
    print(json.dumps({"outcomes": outcomes, "called": sorted(called)}))


async def until(is_true: typing.Callable[[], typing.Any], what: str) -> None:
    """Polls until a condition is true. It may be a coroutine function."""
    deadline = time.monotonic() + 60
    while True:
        found = is_true()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return
        assert time.monotonic() < deadline, f"After a minute it is not so: {what}"
        await asyncio.sleep(0.05)
