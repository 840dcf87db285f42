"""A client of the sandbox platform, for programs with and without asyncio."""

from ._async.commands import AsyncCommandHandle
from ._async.files import AsyncFileWatch
from ._async.platform import AsyncPlatform
from ._async.pty import AsyncTerminal
from ._async.sandbox import AsyncSandbox
from ._sync.commands import CommandHandle
from ._sync.files import FileWatch
from ._sync.platform import Platform
from ._sync.pty import Terminal
from ._sync.sandbox import Sandbox
from .errors import CommandFailedError, SandboxError
from .values import (
    CodeContext,
    CodeResult,
    CommandResult,
    CopyProgress,
    CopyResult,
    Execution,
    FileEvent,
    FileInfo,
    GitFile,
    GitStatus,
    NewFile,
    Output,
    RunningProcess,
)
from .webhook_signature import WebhookEvent

__all__ = [
    "AsyncCommandHandle",
    "AsyncFileWatch",
    "AsyncPlatform",
    "AsyncSandbox",
    "AsyncTerminal",
    "CodeContext",
    "CodeResult",
    "CommandFailedError",
    "CommandHandle",
    "CommandResult",
    "CopyProgress",
    "CopyResult",
    "Execution",
    "FileEvent",
    "FileInfo",
    "FileWatch",
    "GitFile",
    "GitStatus",
    "NewFile",
    "Output",
    "Platform",
    "RunningProcess",
    "Sandbox",
    "SandboxError",
    "Terminal",
    "WebhookEvent",
]
