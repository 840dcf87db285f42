from __future__ import annotations

import base64
import builtins
import uuid
from typing import Any, AsyncIterator, Callable, Literal, Mapping, Sequence, overload

from ..errors import CommandFailedError, SandboxError
from ..values import CommandResult, Output, OutputText, RunningProcess
from .agent_client import AsyncAgentClient
from .deadline import AsyncDeadline
from .files import AsyncFiles
from .process_stream import AsyncProcessStream

_MAX_OUTPUT = 8 * 1024 * 1024

# Opens the input file and removes it, then becomes the command.
_OPEN_INPUT = 'exec <"$1" || exit 126; [ "$1" = /dev/null ] || rm -f -- "$1"; shift; '
_BECOME_PROGRAM = 'exec "$@"'
_BECOME_SHELL = 'command -v bash >/dev/null && exec bash -c "$1"; exec sh -c "$1"'
# Scripts that start a command, with the index of the command in the arguments.
_LAUNCHERS = {_OPEN_INPUT + _BECOME_PROGRAM: 4, _OPEN_INPUT + _BECOME_SHELL: 4, _BECOME_SHELL: 3}


class AsyncCommandHandle:
    """A running command. Iterate over its output, or let ``wait`` collect it."""

    def __init__(
        self,
        agent: AsyncAgentClient,
        stream: AsyncProcessStream,
        *,
        on_stdout: Callable[[str], Any] | None,
        on_stderr: Callable[[str], Any] | None,
        timeout: float | None,
        check: bool,
        max_output: int,
    ) -> None:
        self._agent = agent
        self._stream = stream
        self._on_stdout = on_stdout
        self._on_stderr = on_stderr
        self._timeout = timeout
        self._check = check
        self._max_output = max_output

    @property
    def pid(self) -> int:
        return self._stream.pid

    async def send_stdin(self, data: str | bytes) -> None:
        """Writes to its standard input. It needs ``stdin=True``."""
        raw = data.encode() if isinstance(data, str) else data
        text = base64.b64encode(raw).decode()
        await self._agent.call("Process/SendInput", {"process": {"pid": self.pid}, "input": {"stdin": text}})

    async def kill(self, signal: Literal["SIGKILL", "SIGTERM"] = "SIGKILL") -> bool:
        return await send_signal(self._agent, self.pid, signal)

    async def disconnect(self) -> None:
        """Closes the connection. The command continues."""
        await self._stream.disconnect()

    def __aiter__(self) -> AsyncIterator[Output]:
        return self._stream.output()

    async def wait(self) -> CommandResult:
        """Waits for its end and returns its result."""
        stdout, stderr = OutputText(self._max_output), OutputText(self._max_output)
        async with AsyncDeadline(self._timeout, self._stop) as deadline:
            try:
                async for piece in self._stream.output():
                    is_error = piece.source == "stderr"
                    text = (stderr if is_error else stdout).add(piece.data)
                    listener = self._on_stderr if is_error else self._on_stdout
                    if listener is not None:
                        listener(text)
            except SandboxError:
                if not deadline.is_over:
                    raise
        if deadline.is_over:
            raise SandboxError("timed_out", f"The command did not end in {self._timeout} s and was killed")
        texts = stdout.finish(), stderr.finish()
        exit_code = self._stream.exit_code or 0
        if self._check and exit_code != 0:
            raise CommandFailedError(exit_code, *texts)
        return CommandResult(exit_code, *texts, stdout.is_truncated or stderr.is_truncated)

    async def _stop(self) -> None:
        try:
            await self.kill()
        except SandboxError:
            # The command's end ends its stream. Where the kill does not arrive, the stream is left.
            await self.disconnect()


class AsyncCommands:
    """Commands in the sandbox."""

    def __init__(self, agent: AsyncAgentClient, files: AsyncFiles) -> None:
        self._agent = agent
        self._files = files

    @overload
    async def run(
        self,
        command: str | Sequence[str],
        *,
        background: Literal[True],
        cwd: str | None = ...,
        envs: Mapping[str, str] | None = ...,
        stdin: str | bytes | bool = ...,
        tag: str | None = ...,
        on_stdout: Callable[[str], Any] | None = ...,
        on_stderr: Callable[[str], Any] | None = ...,
        timeout: float | None = ...,
        check: bool = ...,
        max_output: int = ...,
    ) -> AsyncCommandHandle: ...

    @overload
    async def run(
        self,
        command: str | Sequence[str],
        *,
        background: Literal[False] = ...,
        cwd: str | None = ...,
        envs: Mapping[str, str] | None = ...,
        stdin: str | bytes | bool = ...,
        tag: str | None = ...,
        on_stdout: Callable[[str], Any] | None = ...,
        on_stderr: Callable[[str], Any] | None = ...,
        timeout: float | None = ...,
        check: bool = ...,
        max_output: int = ...,
    ) -> CommandResult: ...

    async def run(
        self,
        command: str | Sequence[str],
        *,
        background: bool = False,
        cwd: str | None = None,
        envs: Mapping[str, str] | None = None,
        stdin: str | bytes | bool = False,
        tag: str | None = None,
        on_stdout: Callable[[str], Any] | None = None,
        on_stderr: Callable[[str], Any] | None = None,
        timeout: float | None = None,
        check: bool = False,
        max_output: int = _MAX_OUTPUT,
    ) -> AsyncCommandHandle | CommandResult:
        """Runs a command: a text for the shell, or a program with its arguments.

        ``stdin`` is what the command reads; True leaves it open for ``send_stdin``. After ``timeout`` seconds the
        command is killed. With ``background`` the answer comes as soon as the command has started.
        """
        process: dict[str, Any] = {**await self._program(command, stdin), "envs": dict(envs or {})}
        if cwd is not None:
            process["cwd"] = cwd
        request: dict[str, Any] = {"process": process}
        if tag is not None:
            request["tag"] = tag
        stream = await AsyncProcessStream.start(self._agent, request)
        handle = AsyncCommandHandle(
            self._agent,
            stream,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            timeout=timeout,
            check=check,
            max_output=max_output,
        )
        return handle if background else await handle.wait()

    async def connect(
        self,
        process: int | str,
        *,
        on_stdout: Callable[[str], Any] | None = None,
        on_stderr: Callable[[str], Any] | None = None,
    ) -> AsyncCommandHandle:
        """Follows a running process, by its pid or its tag."""
        stream = await AsyncProcessStream.connect(self._agent, process)
        return AsyncCommandHandle(
            self._agent,
            stream,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            timeout=None,
            check=False,
            max_output=_MAX_OUTPUT,
        )

    async def list(self) -> builtins.list[RunningProcess]:
        """The running processes that were started through the agent."""
        reply = await self._agent.call("Process/List", {})
        return [
            RunningProcess(each["pid"], _command_of(each["config"]), each.get("tag")) for each in reply["processes"]
        ]

    async def kill(self, pid: int, signal: Literal["SIGKILL", "SIGTERM"] = "SIGKILL") -> bool:
        """Ends a process and its group. Returns whether there was one."""
        return await send_signal(self._agent, pid, signal)

    async def _program(self, command: str | Sequence[str], stdin: str | bytes | bool) -> dict[str, Any]:
        is_shell = isinstance(command, str)
        words = [command] if isinstance(command, str) else [*command]
        if stdin is True:
            if is_shell:
                return {"cmd": "sh", "args": ["-c", _BECOME_SHELL, "sh", *words]}
            return {"cmd": words[0], "args": words[1:]}
        source = "/dev/null"
        if stdin is not False:
            source = f"/tmp/.stdin-{uuid.uuid4()}"
            await self._files.write(source, stdin)
        script = _OPEN_INPUT + (_BECOME_SHELL if is_shell else _BECOME_PROGRAM)
        return {"cmd": "sh", "args": ["-c", script, "sh", source, *words]}


async def send_signal(agent: AsyncAgentClient, pid: int, signal: str) -> bool:
    try:
        await agent.call("Process/SendSignal", {"process": {"pid": pid}, "signal": f"SIGNAL_{signal}"})
        return True
    except SandboxError as error:
        if error.code == "not_found":
            return False
        raise


def _command_of(config: Mapping[str, Any]) -> list[str]:
    cmd, args = config["cmd"], config["args"]
    place = _LAUNCHERS.get(args[1]) if cmd == "sh" and len(args) > 1 else None
    return [cmd, *args] if place is None else list(args[place:])
