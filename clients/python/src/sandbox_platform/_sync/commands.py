# Generated from _async by generate_sync.py. Do not edit.
from __future__ import annotations

import base64
import builtins
import uuid
from typing import Any, Iterator, Callable, Literal, Mapping, Sequence, overload

from ..errors import CommandFailedError, SandboxError
from ..values import CommandResult, Output, OutputText, RunningProcess
from .agent_client import AgentClient
from .deadline import Deadline
from .files import Files
from .process_stream import ProcessStream

_MAX_OUTPUT = 8 * 1024 * 1024

# Opens the input file and removes it, then becomes the command.
_OPEN_INPUT = 'exec <"$1" || exit 126; [ "$1" = /dev/null ] || rm -f -- "$1"; shift; '
_BECOME_PROGRAM = 'exec "$@"'
_BECOME_SHELL = 'command -v bash >/dev/null && exec bash -c "$1"; exec sh -c "$1"'
# Scripts that start a command, with the index of the command in the arguments.
_LAUNCHERS = {_OPEN_INPUT + _BECOME_PROGRAM: 4, _OPEN_INPUT + _BECOME_SHELL: 4, _BECOME_SHELL: 3}


class CommandHandle:
    """A running command. Iterate over its output, or let ``wait`` collect it."""

    def __init__(
        self,
        agent: AgentClient,
        stream: ProcessStream,
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

    def send_stdin(self, data: str | bytes) -> None:
        """Writes to its standard input. It needs ``stdin=True``."""
        raw = data.encode() if isinstance(data, str) else data
        text = base64.b64encode(raw).decode()
        self._agent.call("Process/SendInput", {"process": {"pid": self.pid}, "input": {"stdin": text}})

    def kill(self, signal: Literal["SIGKILL", "SIGTERM"] = "SIGKILL") -> bool:
        return send_signal(self._agent, self.pid, signal)

    def disconnect(self) -> None:
        """Closes the connection. The command continues."""
        self._stream.disconnect()

    def __iter__(self) -> Iterator[Output]:
        return self._stream.output()

    def wait(self) -> CommandResult:
        """Waits for its end and returns its result."""
        stdout, stderr = OutputText(self._max_output), OutputText(self._max_output)
        with Deadline(self._timeout, self._stop) as deadline:
            try:
                for piece in self._stream.output():
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

    def _stop(self) -> None:
        try:
            self.kill()
        except SandboxError:
            # The command's end ends its stream. Where the kill does not arrive, the stream is left.
            self.disconnect()


class Commands:
    """Commands in the sandbox."""

    def __init__(self, agent: AgentClient, files: Files) -> None:
        self._agent = agent
        self._files = files

    @overload
    def run(
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
    ) -> CommandHandle: ...

    @overload
    def run(
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

    def run(
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
    ) -> CommandHandle | CommandResult:
        """Runs a command: a text for the shell, or a program with its arguments.

        ``stdin`` is what the command reads; True leaves it open for ``send_stdin``. After ``timeout`` seconds the
        command is killed. With ``background`` the answer comes as soon as the command has started.
        """
        process: dict[str, Any] = {**self._program(command, stdin), "envs": dict(envs or {})}
        if cwd is not None:
            process["cwd"] = cwd
        request: dict[str, Any] = {"process": process}
        if tag is not None:
            request["tag"] = tag
        stream = ProcessStream.start(self._agent, request)
        handle = CommandHandle(
            self._agent,
            stream,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            timeout=timeout,
            check=check,
            max_output=max_output,
        )
        return handle if background else handle.wait()

    def connect(
        self,
        process: int | str,
        *,
        on_stdout: Callable[[str], Any] | None = None,
        on_stderr: Callable[[str], Any] | None = None,
    ) -> CommandHandle:
        """Follows a running process, by its pid or its tag."""
        stream = ProcessStream.connect(self._agent, process)
        return CommandHandle(
            self._agent,
            stream,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            timeout=None,
            check=False,
            max_output=_MAX_OUTPUT,
        )

    def list(self) -> builtins.list[RunningProcess]:
        """The running processes that were started through the agent."""
        reply = self._agent.call("Process/List", {})
        return [
            RunningProcess(each["pid"], _command_of(each["config"]), each.get("tag")) for each in reply["processes"]
        ]

    def kill(self, pid: int, signal: Literal["SIGKILL", "SIGTERM"] = "SIGKILL") -> bool:
        """Ends a process and its group. Returns whether there was one."""
        return send_signal(self._agent, pid, signal)

    def _program(self, command: str | Sequence[str], stdin: str | bytes | bool) -> dict[str, Any]:
        is_shell = isinstance(command, str)
        words = [command] if isinstance(command, str) else [*command]
        if stdin is True:
            if is_shell:
                return {"cmd": "sh", "args": ["-c", _BECOME_SHELL, "sh", *words]}
            return {"cmd": words[0], "args": words[1:]}
        source = "/dev/null"
        if stdin is not False:
            source = f"/tmp/.stdin-{uuid.uuid4()}"
            self._files.write(source, stdin)
        script = _OPEN_INPUT + (_BECOME_SHELL if is_shell else _BECOME_PROGRAM)
        return {"cmd": "sh", "args": ["-c", script, "sh", source, *words]}


def send_signal(agent: AgentClient, pid: int, signal: str) -> bool:
    try:
        agent.call("Process/SendSignal", {"process": {"pid": pid}, "signal": f"SIGNAL_{signal}"})
        return True
    except SandboxError as error:
        if error.code == "not_found":
            return False
        raise


def _command_of(config: Mapping[str, Any]) -> list[str]:
    cmd, args = config["cmd"], config["args"]
    place = _LAUNCHERS.get(args[1]) if cmd == "sh" and len(args) > 1 else None
    return [cmd, *args] if place is None else list(args[place:])
