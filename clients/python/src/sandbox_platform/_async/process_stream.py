from __future__ import annotations

import asyncio
import base64
from typing import Any, AsyncGenerator, Mapping

from ..errors import SandboxError
from ..stream_breaker import StreamBreaker
from ..values import Output
from .agent_client import AsyncAgentClient

_RECONNECTS = 8


class AsyncProcessStream:
    """A process of the sandbox as its events.

    A process outlives its connection: when that breaks off, the events go on over another one.
    """

    def __init__(
        self, agent: AsyncAgentClient, pid: int, events: AsyncGenerator[Any, None], breaker: StreamBreaker
    ) -> None:
        self._agent = agent
        self._events = events
        self._breaker = breaker
        self.pid = pid
        self.exit_code: int | None = None

    @staticmethod
    async def start(
        agent: AsyncAgentClient,
        request: Mapping[str, Any],
        user: str | None = None,
        leave_after: float | None = None,
    ) -> AsyncProcessStream:
        """``user`` is a user of the sandbox; None: root."""
        # A background job that the command leaves does not delay its end.
        headers = {"Process-Ends-With": "leader", **_leave_header(leave_after)}
        if user is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(f'{user}:'.encode()).decode()}"
        return await AsyncProcessStream._open(agent, "Process/Start", request, headers)

    @staticmethod
    async def connect(
        agent: AsyncAgentClient, process: int | str, leave_after: float | None = None
    ) -> AsyncProcessStream:
        """Follows the process with this pid or this tag."""
        selector = {"pid": process} if isinstance(process, int) else {"tag": process}
        return await AsyncProcessStream._open(agent, "Process/Connect", {"process": selector}, _leave_header(leave_after))

    @staticmethod
    async def _open(
        agent: AsyncAgentClient, call: str, request: Mapping[str, Any], headers: Mapping[str, str]
    ) -> AsyncProcessStream:
        breaker = StreamBreaker()
        events = agent.stream(call, request, breaker, headers)
        async for message in events:
            start = message.get("event", {}).get("start")
            if start:
                return AsyncProcessStream(agent, start["pid"], events, breaker)
        raise SandboxError("bad_reply", "The process never started")

    async def disconnect(self) -> None:
        """Closes the connection. The process continues, and readers of its output get ``disconnected``."""
        self._breaker.break_off()
        try:
            await self._events.aclose()
        except (RuntimeError, ValueError):
            pass  # Another thread or task reads it now, and gets the closed connection.

    async def output(self) -> AsyncGenerator[Output, None]:
        """Its output until it ends."""
        broken = 0
        while self.exit_code is None:
            try:
                async for message in self._events:
                    event = message.get("event", {})
                    if "end" in event:
                        self.exit_code = event["end"]["exitCode"]
                        # The garbage collector must not do this: it may run while its thread holds a lock of httpx,
                        # which the end of a stream needs too.
                        await self._events.aclose()
                        return
                    for source, data in event.get("data", {}).items():
                        broken = 0
                        yield Output(source, base64.b64decode(data))
                raise SandboxError("connection_failed", "The stream ended before the process did")
            except SandboxError as error:
                if self._breaker.is_broken or error.code == "deadline_exceeded":
                    raise SandboxError("disconnected", "The client left the process") from None
                if error.code != "connection_failed" or broken == _RECONNECTS:
                    raise
            except (RuntimeError, ValueError):
                # `disconnect` closes the events now.
                if not self._breaker.is_broken:
                    raise
                raise SandboxError("disconnected", "The client left the process") from None
            await asyncio.sleep(0.1 * 2**broken)
            broken += 1
            self._events = self._agent.stream("Process/Connect", {"process": {"pid": self.pid}}, self._breaker)


def _leave_header(after: float | None) -> dict[str, str]:
    """The agent itself ends the stream, so no output is lost on the way. The process continues."""
    return {} if after is None else {"Connect-Timeout-Ms": str(max(1, round(after * 1000)))}
