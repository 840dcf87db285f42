"""A backend of deepagents whose files and commands are in a sandbox of the platform."""

from __future__ import annotations

from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox
from sandbox_platform import Sandbox, SandboxError

# The exit code of `timeout` (1) for a command that did not end in time.
_TIMED_OUT = 124


class PlatformBackend(BaseSandbox):
    """The files and the shell of a running sandbox, as root.

    The caller owns the sandbox and ends it. Its image needs ``python3``, with which deepagents reads and edits files.
    Failures of the sandbox itself, such as its end, raise a ``SandboxError``.
    """

    # The wrapper needs a POSIX shell and coreutils, which an image with `python3` has.
    enable_capture_offload = True

    def __init__(self, sandbox: Sandbox, *, timeout: int = 1800) -> None:
        """``timeout`` is in seconds, for commands without one. 0 means none."""
        self._sandbox = sandbox
        self._timeout = timeout

    @property
    def id(self) -> str:
        return self._sandbox.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Runs a command with a shell. ``output`` has both streams in their order, up to 8 Mi characters of its end.

        A command that runs longer than ``timeout`` seconds is killed; its exit code is then 124.
        """
        seconds = self._timeout if timeout is None else timeout
        # The background keeps the output of a command that is killed.
        handle = self._sandbox.commands.run(f"exec 2>&1\n{command}", timeout=seconds or None, background=True)
        try:
            result = handle.wait()
        except SandboxError as error:
            if error.code != "timed_out":
                raise
            return ExecuteResponse(f"{handle.stdout}\n{error.message}".lstrip(), _TIMED_OUT)
        return ExecuteResponse(result.stdout, result.exit_code, result.truncated)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Writes files one after the other, and makes their folders."""
        return [FileUploadResponse(path, self._upload(path, content)) for path, content in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._download(path) for path in paths]

    def _upload(self, path: str, content: bytes) -> str | None:
        if not path.startswith("/"):
            return "invalid_path"
        try:
            self._sandbox.files.write(path, content)
        except SandboxError as error:
            return _file_error(error)
        return None

    def _download(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path, error="invalid_path")
        try:
            return FileDownloadResponse(path, self._sandbox.files.read_bytes(path))
        except SandboxError as error:
            return FileDownloadResponse(path, error=_file_error(error))


def _file_error(error: SandboxError) -> str:
    """One of the error codes of deepagents, or the text of an error that has none."""
    if error.code == "invalid_argument":
        return "is_directory" if "is a directory" in error.message else "invalid_path"
    codes = {"not_found": "file_not_found", "permission_denied": "permission_denied"}
    return codes.get(error.code, str(error))
