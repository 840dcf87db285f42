from __future__ import annotations

import base64
import builtins
import math
from typing import Any, AsyncIterator, Callable, Literal, Mapping, Sequence, overload

from ..errors import CommandFailedError, SandboxError
from ..values import MAX_OUTPUT, CommandResult, Output, OutputText, RunningProcess
from .agent_client import AsyncAgentClient
from .background import AsyncBackground
from .deadline import AsyncDeadline
from .piece_queue import AsyncPieceQueue
from .process_stream import AsyncProcessStream

# The input of a command is sent in pieces of this size.
_INPUT_PIECE = 4 * 1024 * 1024
_NO_INPUT = "exec </dev/null; "
_BECOME_PROGRAM = 'exec "$@"'
_BECOME_SHELL = 'command -v bash >/dev/null && exec bash -c "$1"; exec sh -c "$1"'
# Scripts that start a command. The command is in the arguments after `-c`, the script and `sh`.
_LAUNCHERS = {_NO_INPUT + _BECOME_PROGRAM, _NO_INPUT + _BECOME_SHELL, _BECOME_SHELL}


class AsyncCommandHandle:
    """A command that runs or has ended.

    Its output is read as it comes, so a command never waits for its reader, unless somebody iterates over the pieces.
    """

    def __init__(
        self,
        agent: AsyncAgentClient,
        stream: AsyncProcessStream,
        *,
        on_stdout: Callable[[str], Any] | None = None,
        on_stderr: Callable[[str], Any] | None = None,
        timeout: float | None = None,
        check: bool = False,
        max_output: int = MAX_OUTPUT,
        stdin: bytes | None = None,
    ) -> None:
        self._agent = agent
        self._stream = stream
        self._on_stdout = on_stdout
        self._on_stderr = on_stderr
        self._timeout = timeout
        self._check = check
        self._stdout, self._stderr = OutputText(max_output), OutputText(max_output)
        self._pieces = AsyncPieceQueue(max_output)
        self._is_background = False
        self._reading: AsyncBackground | None = None
        self._input = stdin
        self._feeding = None if stdin is None else AsyncBackground(self._feed)

    @property
    def pid(self) -> int:
        return self._stream.pid

    @property
    def exit_code(self) -> int | None:
        """128 + n if signal n ended it. None while it runs."""
        return self._stream.exit_code

    @property
    def stdout(self) -> str:
        """Its output so far."""
        return self._stdout.text

    @property
    def stderr(self) -> str:
        return self._stderr.text

    async def send_stdin(self, data: str | bytes, *, request_timeout: float | None = None) -> None:
        """Writes to its standard input. It needs ``stdin=True``."""
        raw = data.encode() if isinstance(data, str) else data
        text = base64.b64encode(raw).decode()
        message = {"process": {"pid": self.pid}, "input": {"stdin": text}}
        await self._agent.call("Process/SendInput", message, request_timeout=request_timeout)

    async def close_stdin(self, *, request_timeout: float | None = None) -> None:
        """Ends its standard input after everything that was written."""
        message = {"process": {"pid": self.pid}}
        await self._agent.call("Process/CloseStdin", message, request_timeout=request_timeout)

    async def kill(
        self, signal: Literal["SIGKILL", "SIGTERM"] = "SIGKILL", *, request_timeout: float | None = None
    ) -> bool:
        """Ends the command and its group. Returns whether it still ran."""
        return await send_signal(self._agent, self.pid, signal, request_timeout)

    async def disconnect(self) -> None:
        """Closes the connection. The command continues."""
        await self._stream.disconnect()

    async def __aiter__(self) -> AsyncIterator[Output]:
        """Its output until it ends.

        Of output that came before the first reader, the newest ``max_output`` bytes are kept.
        """
        async for piece in self._pieces.read():
            yield piece
        if self._reading is not None:
            await self._reading.wait()

    async def wait(self) -> CommandResult:
        """Waits for its end and returns its result."""
        await (self._read() if self._reading is None else self._reading.wait())
        if self._feeding is not None:
            await self._feeding.wait()
        exit_code, texts = self._stream.exit_code or 0, (self.stdout, self.stderr)
        if self._check and exit_code != 0:
            raise CommandFailedError(exit_code, *texts)
        return CommandResult(exit_code, *texts, self._stdout.is_truncated or self._stderr.is_truncated)

    def _read_in_background(self) -> AsyncCommandHandle:
        """Begins to read the output, also while nobody waits."""
        self._is_background = True
        self._reading = AsyncBackground(self._read)
        return self

    async def _read(self) -> None:
        try:
            async with AsyncDeadline(self._timeout, self._stop) as deadline:
                try:
                    async for piece in self._stream.output():
                        is_error = piece.source == "stderr"
                        text = (self._stderr if is_error else self._stdout).add(piece.data)
                        listener = self._on_stderr if is_error else self._on_stdout
                        if listener is not None:
                            listener(text)
                        if self._is_background:
                            await self._pieces.add(piece)
                except SandboxError:
                    if not deadline.is_over:
                        raise
            if deadline.is_over:
                raise SandboxError("timed_out", f"The command did not end in {self._timeout} s and was killed")
            self._stdout.finish()
            self._stderr.finish()
        finally:
            await self._pieces.end()

    async def _feed(self) -> None:
        """Sends the whole input. A failure kills the command."""
        stdin = self._input or b""
        try:
            for start in range(0, len(stdin), _INPUT_PIECE):
                await self.send_stdin(stdin[start : start + _INPUT_PIECE], request_timeout=math.inf)
            await self.close_stdin(request_timeout=math.inf)
        except SandboxError as error:
            # A command may end, or close its input, without reading all of it.
            if error.code not in ("failed_precondition", "not_found"):
                await self.kill()
                raise

    async def _stop(self) -> None:
        try:
            await self.kill()
        except SandboxError:
            # The command's end ends its stream. Where the kill does not arrive, the stream is left.
            await self.disconnect()


class AsyncCommands:
    """Commands in the sandbox."""

    def __init__(self, agent: AsyncAgentClient) -> None:
        self._agent = agent

    @overload
    async def run(
        self,
        command: str | Sequence[str],
        *,
        background: Literal[True],
        user: str | None = ...,
        cwd: str | None = ...,
        envs: Mapping[str, str] | None = ...,
        stdin: str | bytes | bool = ...,
        tag: str | None = ...,
        on_stdout: Callable[[str], Any] | None = ...,
        on_stderr: Callable[[str], Any] | None = ...,
        timeout: float | None = ...,
        check: bool = ...,
        max_output: int = ...,
        leave_after: float | None = ...,
    ) -> AsyncCommandHandle: ...

    @overload
    async def run(
        self,
        command: str | Sequence[str],
        *,
        background: Literal[False] = ...,
        user: str | None = ...,
        cwd: str | None = ...,
        envs: Mapping[str, str] | None = ...,
        stdin: str | bytes | bool = ...,
        tag: str | None = ...,
        on_stdout: Callable[[str], Any] | None = ...,
        on_stderr: Callable[[str], Any] | None = ...,
        timeout: float | None = ...,
        check: bool = ...,
        max_output: int = ...,
        leave_after: float | None = ...,
    ) -> CommandResult: ...

    async def run(
        self,
        command: str | Sequence[str],
        *,
        background: bool = False,
        user: str | None = None,
        cwd: str | None = None,
        envs: Mapping[str, str] | None = None,
        stdin: str | bytes | bool = False,
        tag: str | None = None,
        on_stdout: Callable[[str], Any] | None = None,
        on_stderr: Callable[[str], Any] | None = None,
        timeout: float | None = None,
        check: bool = False,
        max_output: int = MAX_OUTPUT,
        leave_after: float | None = None,
    ) -> AsyncCommandHandle | CommandResult:
        """Runs a command: a text for the shell, or a program with its arguments.

        ``user`` is a user of the sandbox, by name or number; None: root. ``stdin`` is what the command reads; True
        leaves it open for ``send_stdin``. After ``timeout`` seconds the command is killed. With ``background`` the
        answer comes as soon as the command has started.
        """
        process: dict[str, Any] = {**_program(command, stdin), "envs": dict(envs or {})}
        if cwd is not None:
            process["cwd"] = cwd
        request: dict[str, Any] = {"process": process}
        if tag is not None:
            request["tag"] = tag
        handle = AsyncCommandHandle(
            self._agent,
            await AsyncProcessStream.start(self._agent, request, user, leave_after),
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            timeout=timeout,
            check=check,
            max_output=max_output,
            stdin=None if isinstance(stdin, bool) else stdin.encode() if isinstance(stdin, str) else stdin,
        )
        return handle._read_in_background() if background else await handle.wait()

    async def connect(
        self,
        process: int | str,
        *,
        on_stdout: Callable[[str], Any] | None = None,
        on_stderr: Callable[[str], Any] | None = None,
        timeout: float | None = None,
        check: bool = False,
        max_output: int = MAX_OUTPUT,
        leave_after: float | None = None,
    ) -> AsyncCommandHandle:
        """Follows a running process, or one that ended not long ago, by its pid or its tag.

        The output since its last client left comes first, up to 1 MiB. With ``leave_after`` the client leaves after so
        many seconds, and ``wait`` raises ``disconnected``; the command continues, and the next ``connect`` gets the
        output from there. Raises ``not_found``.
        """
        stream = await AsyncProcessStream.connect(self._agent, process, leave_after)
        handle = AsyncCommandHandle(
            self._agent,
            stream,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            timeout=timeout,
            check=check,
            max_output=max_output,
        )
        return handle._read_in_background()

    async def list(self, *, request_timeout: float | None = None) -> builtins.list[RunningProcess]:
        """The running processes that were started through the agent."""
        reply = await self._agent.call("Process/List", {}, request_timeout=request_timeout)
        return [
            RunningProcess(each["pid"], _command_of(each["config"]), each.get("tag")) for each in reply["processes"]
        ]

    async def kill(
        self, pid: int, signal: Literal["SIGKILL", "SIGTERM"] = "SIGKILL", *, request_timeout: float | None = None
    ) -> bool:
        """Ends a process and its group. Returns whether there was one."""
        return await send_signal(self._agent, pid, signal, request_timeout)


async def send_signal(agent: AsyncAgentClient, pid: int, signal: str, request_timeout: float | None) -> bool:
    message = {"process": {"pid": pid}, "signal": f"SIGNAL_{signal}"}
    try:
        await agent.call("Process/SendSignal", message, request_timeout=request_timeout)
        return True
    except SandboxError as error:
        if error.code == "not_found":
            return False
        raise


def _program(command: str | Sequence[str], stdin: str | bytes | bool) -> dict[str, Any]:
    is_shell = isinstance(command, str)
    words = [command] if isinstance(command, str) else [*command]
    become = _BECOME_SHELL if is_shell else _BECOME_PROGRAM
    if stdin is False:
        return {"cmd": "sh", "args": ["-c", _NO_INPUT + become, "sh", *words]}
    if is_shell:
        return {"cmd": "sh", "args": ["-c", _BECOME_SHELL, "sh", *words]}
    return {"cmd": words[0], "args": words[1:]}


def _command_of(config: Mapping[str, Any]) -> list[str]:
    cmd, args = config["cmd"], config["args"]
    is_launched = cmd == "sh" and len(args) > 1 and args[1] in _LAUNCHERS
    return list(args[3:]) if is_launched else [cmd, *args]
