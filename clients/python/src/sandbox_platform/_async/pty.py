from __future__ import annotations

import base64
from typing import Any, AsyncIterator, Callable, Mapping, Sequence

from .agent_client import AsyncAgentClient
from .background import AsyncBackground
from .commands import send_signal
from .process_stream import AsyncProcessStream

_LOGIN_SHELL = ("sh", "-c", "command -v bash >/dev/null && exec bash -l; exec sh -l")


class AsyncTerminal:
    """A program on a terminal. Iterate over its output, or let ``wait`` pass it to a function."""

    def __init__(
        self, agent: AsyncAgentClient, stream: AsyncProcessStream, on_data: Callable[[bytes], Any] | None
    ) -> None:
        self._agent = agent
        self._stream = stream
        self._on_data = on_data
        self._reading = None if on_data is None else AsyncBackground(self._read)

    @property
    def pid(self) -> int:
        return self._stream.pid

    @property
    def exit_code(self) -> int | None:
        """128 + n if signal n ended it. None while it runs."""
        return self._stream.exit_code

    async def write(self, data: str | bytes, *, request_timeout: float | None = None) -> None:
        """Sends input, as typed by a person."""
        raw = data.encode() if isinstance(data, str) else data
        text = base64.b64encode(raw).decode()
        message = {"process": {"pid": self.pid}, "input": {"pty": text}}
        await self._agent.call("Process/SendInput", message, request_timeout=request_timeout)

    async def resize(self, cols: int, rows: int, *, request_timeout: float | None = None) -> None:
        message = {"process": {"pid": self.pid}, "pty": {"size": {"cols": cols, "rows": rows}}}
        await self._agent.call("Process/Update", message, request_timeout=request_timeout)

    async def kill(self, *, request_timeout: float | None = None) -> bool:
        """Ends the program and its group. Returns whether it still ran."""
        return await send_signal(self._agent, self.pid, "SIGKILL", request_timeout)

    async def disconnect(self) -> None:
        """Closes the connection. The program continues."""
        await self._stream.disconnect()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream.output():
            yield piece.data

    async def wait(self, on_data: Callable[[bytes], Any] | None = None) -> int:
        """Waits for the program's end and returns its exit code."""
        if self._reading is not None:
            await self._reading.wait()
        self._on_data = on_data
        await self._read()
        return self._stream.exit_code or 0

    async def _read(self) -> None:
        async for piece in self._stream.output():
            if self._on_data is not None:
                self._on_data(piece.data)


class AsyncPty:
    """Terminals in the sandbox."""

    def __init__(self, agent: AsyncAgentClient) -> None:
        self._agent = agent

    async def start(
        self,
        command: Sequence[str] = _LOGIN_SHELL,
        *,
        cols: int = 80,
        rows: int = 24,
        user: str | None = None,
        cwd: str | None = None,
        envs: Mapping[str, str] | None = None,
        tag: str | None = None,
        on_data: Callable[[bytes], Any] | None = None,
    ) -> AsyncTerminal:
        """Starts a program on a new terminal. The default is a login shell of root.

        ``on_data`` is called with each piece of output as it comes. Without it, iterate over the terminal.
        """
        cmd, *args = command
        process: dict[str, Any] = {"cmd": cmd, "args": args, "envs": dict(envs or {})}
        if cwd is not None:
            process["cwd"] = cwd
        request: dict[str, Any] = {"process": process, "pty": {"size": {"cols": cols, "rows": rows}}}
        if tag is not None:
            request["tag"] = tag
        return AsyncTerminal(self._agent, await AsyncProcessStream.start(self._agent, request, user), on_data)

    async def connect(
        self, process: int | str, *, on_data: Callable[[bytes], Any] | None = None
    ) -> AsyncTerminal:
        """Follows a running terminal, or one that ended not long ago, by its pid or its tag."""
        return AsyncTerminal(self._agent, await AsyncProcessStream.connect(self._agent, process), on_data)
