# Generated from _async by generate_sync.py. Do not edit.
from __future__ import annotations

import base64
from typing import Any, Iterator, Callable, Mapping, Sequence

from .agent_client import AgentClient
from .background import Background
from .commands import send_signal
from .process_stream import ProcessStream

_LOGIN_SHELL = ("sh", "-c", "command -v bash >/dev/null && exec bash -l; exec sh -l")


class Terminal:
    """A program on a terminal. Iterate over its output, or let ``wait`` pass it to a function."""

    def __init__(
        self, agent: AgentClient, stream: ProcessStream, on_data: Callable[[bytes], Any] | None
    ) -> None:
        self._agent = agent
        self._stream = stream
        self._on_data = on_data
        self._reading = None if on_data is None else Background(self._read)

    @property
    def pid(self) -> int:
        return self._stream.pid

    @property
    def exit_code(self) -> int | None:
        """128 + n if signal n ended it. None while it runs."""
        return self._stream.exit_code

    def write(self, data: str | bytes, *, request_timeout: float | None = None) -> None:
        """Sends input, as typed by a person."""
        raw = data.encode() if isinstance(data, str) else data
        text = base64.b64encode(raw).decode()
        message = {"process": {"pid": self.pid}, "input": {"pty": text}}
        self._agent.call("Process/SendInput", message, request_timeout=request_timeout)

    def resize(self, cols: int, rows: int, *, request_timeout: float | None = None) -> None:
        message = {"process": {"pid": self.pid}, "pty": {"size": {"cols": cols, "rows": rows}}}
        self._agent.call("Process/Update", message, request_timeout=request_timeout)

    def kill(self, *, request_timeout: float | None = None) -> bool:
        """Ends the program and its group. Returns whether it still ran."""
        return send_signal(self._agent, self.pid, "SIGKILL", request_timeout)

    def disconnect(self) -> None:
        """Closes the connection. The program continues."""
        self._stream.disconnect()

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._stream.output():
            yield piece.data

    def wait(self, on_data: Callable[[bytes], Any] | None = None) -> int:
        """Waits for the program's end and returns its exit code."""
        if self._reading is not None:
            self._reading.wait()
        self._on_data = on_data
        self._read()
        return self._stream.exit_code or 0

    def _read(self) -> None:
        for piece in self._stream.output():
            if self._on_data is not None:
                self._on_data(piece.data)


class Pty:
    """Terminals in the sandbox."""

    def __init__(self, agent: AgentClient) -> None:
        self._agent = agent

    def start(
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
    ) -> Terminal:
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
        return Terminal(self._agent, ProcessStream.start(self._agent, request, user), on_data)

    def connect(
        self, process: int | str, *, on_data: Callable[[bytes], Any] | None = None
    ) -> Terminal:
        """Follows a running terminal, or one that ended not long ago, by its pid or its tag."""
        return Terminal(self._agent, ProcessStream.connect(self._agent, process), on_data)
