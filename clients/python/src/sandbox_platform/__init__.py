"""A client of the sandbox platform, for programs with and without asyncio."""

from ._async.commands import AsyncCommandHandle
from ._async.files import AsyncFileWatch
from ._async.pty import AsyncTerminal
from ._async.sandbox import AsyncSandbox
from ._sync.commands import CommandHandle
from ._sync.files import FileWatch
from ._sync.pty import Terminal
from ._sync.sandbox import Sandbox
from .errors import CommandFailedError, SandboxError
from .values import (
    CodeContext,
    CodeResult,
    CommandResult,
    CopyResult,
    Execution,
    FileEvent,
    FileInfo,
    NewFile,
    Output,
    RunningProcess,
)

__all__ = [
    "AsyncCommandHandle",
    "AsyncFileWatch",
    "AsyncSandbox",
    "AsyncTerminal",
    "CodeContext",
    "CodeResult",
    "CommandFailedError",
    "CommandHandle",
    "CommandResult",
    "CopyResult",
    "Execution",
    "FileEvent",
    "FileInfo",
    "FileWatch",
    "NewFile",
    "Output",
    "RunningProcess",
    "Sandbox",
    "SandboxError",
    "Terminal",
]
