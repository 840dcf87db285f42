from __future__ import annotations

import builtins
import os
import uuid
from typing import Any, AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from urllib.parse import quote, urlencode

from ..archive import CopyCounts, Unpacker, pack_files, pack_folder
from ..errors import SandboxError
from ..local_files import replaced_file
from ..signed_url import file_signature
from ..values import CopyProgress, CopyResult, FileEvent, FileInfo, NewFile, file_info
from .agent_client import AsyncAgentClient
from .http_exchange import MAX_REPORT, read_body, with_retries

_PIECE = 256 * 1024


class AsyncFileWatch:
    """Changes in a folder; iterate over them. ``close`` ends the watch."""

    def __init__(self, events: AsyncGenerator[Any, None]) -> None:
        self._events = events

    async def __aiter__(self) -> AsyncIterator[FileEvent]:
        async for message in self._events:
            event = message.get("filesystem")
            if event:
                yield FileEvent(event["name"], event["type"][len("EVENT_TYPE_") :].lower())

    async def close(self) -> None:
        await self._events.aclose()


class AsyncFiles:
    """Files of the sandbox. Paths are absolute, or relative to the home folder."""

    def __init__(self, agent: AsyncAgentClient, token: str, public_url: str) -> None:
        self._agent = agent
        self._token = token
        self._public_url = public_url

    async def read(self, path: str) -> str:
        """Reads a file as text."""
        return (await self.read_bytes(path)).decode("utf-8", "replace")

    async def read_bytes(self, path: str) -> bytes:
        target = await self._download_path(path)

        async def work() -> bytes:
            async with self._agent.request("GET", target) as response:
                return await response.aread()

        return await with_retries(work)

    async def write(self, path: str, content: str | bytes) -> None:
        """Writes a file and makes missing folders. Readers see the old file or the whole new one."""
        raw = content.encode() if isinstance(content, str) else content
        boundary, head, tail = _form(path)

        async def work() -> None:
            await self._post(boundary, head + raw + tail)

        await with_retries(work)

    async def upload(self, local_path: str | os.PathLike[str], path: str) -> None:
        """Copies a file of this machine into the sandbox."""
        boundary, head, tail = _form(path)

        async def pieces() -> AsyncIterator[bytes]:
            yield head
            with open(local_path, "rb") as file:
                while piece := file.read(_PIECE):
                    yield piece
            yield tail

        await self._post(boundary, pieces())

    async def download(self, path: str, local_path: str | os.PathLike[str]) -> None:
        """Copies a file of the sandbox to this machine. The local file is replaced when the copy is complete."""
        async with self._agent.request("GET", await self._download_path(path)) as response:
            with replaced_file(local_path) as file:
                async for piece in response.aiter_raw():
                    file.write(piece)

    def read_stream(self, path: str) -> AsyncGenerator[bytes, None]:
        """The bytes of a file as they arrive. The connection is closed at the end, or with ``aclose()``."""
        return self._agent.keep(self._pieces(path))

    async def _pieces(self, path: str) -> AsyncGenerator[bytes, None]:
        async with self._agent.request("GET", await self._download_path(path)) as response:
            async for piece in response.aiter_raw():
                yield piece

    async def write_many(self, files: Sequence[NewFile]) -> None:
        """Writes files with one request, and makes missing folders.

        Each file is replaced at once, with its mode, but not all of them together: after an error some are written. A
        link at a path is replaced, not followed.
        """
        named = [((await self._absolute(file["path"]))[1:], file) for file in files]
        await self._send_archive("/", pack_files(named))

    async def upload_folder(
        self,
        local_folder: str | os.PathLike[str],
        path: str,
        *,
        on_progress: Callable[[CopyProgress], Any] | None = None,
    ) -> CopyResult:
        """Copies a local folder into a folder of the sandbox, which is made.

        What is in ``local_folder`` is then in ``path``. Modes, times and symbolic links are kept, links as they are.
        Files that are there are replaced, others stay. Folders that are there keep their mode. Each file gets
        its name when it is complete. ``on_progress`` is called after each entry, and during large files; its exception
        ends the copy.
        """
        counts = CopyCounts(on_progress)
        await self._send_archive(path, pack_folder(local_folder, counts))
        return counts.result()

    async def download_folder(
        self,
        path: str,
        local_folder: str | os.PathLike[str],
        *,
        on_progress: Callable[[CopyProgress], Any] | None = None,
    ) -> CopyResult:
        """Copies a folder of the sandbox into a local folder, as ``upload_folder`` does.

        The sandbox cannot make it write outside of ``local_folder``. The umask limits the modes. Set-id bits are
        removed. Raises ``bad_reply``, ``connection_failed``, ``copy_failed``, and OSError of the local files.
        """
        async with self._agent.request("GET", _archive_path(path)) as response:
            counts = CopyCounts(on_progress)
            unpacker = Unpacker(local_folder, counts)
            try:
                async for piece in response.aiter_raw():
                    unpacker.feed(piece)
                unpacker.finish()
                return counts.result()
            finally:
                unpacker.abort()

    async def _send_archive(self, path: str, tar: Iterable[bytes]) -> None:
        async def pieces() -> AsyncIterator[bytes]:
            for piece in tar:
                yield piece

        headers = {"Content-Type": "application/x-tar"}
        more: dict[str, Any] = {"headers": headers, "content": pieces()}
        async with self._agent.request("POST", _archive_path(path), **more) as response:
            await read_body(response, MAX_REPORT)

    async def list(
        self, path: str, *, depth: int = 1, request_timeout: float | None = None
    ) -> builtins.list[FileInfo]:
        """The entries of a folder, up to ``depth`` levels deep."""
        message = {"path": path, "depth": depth}
        reply = await self._agent.call("Filesystem/ListDir", message, request_timeout=request_timeout)
        return [file_info(entry) for entry in reply["entries"]]

    async def stat(self, path: str, *, request_timeout: float | None = None) -> FileInfo:
        """The entry at a path. Links are not followed."""
        reply = await self._agent.call("Filesystem/Stat", {"path": path}, request_timeout=request_timeout)
        return file_info(reply["entry"])

    async def exists(self, path: str, *, request_timeout: float | None = None) -> bool:
        try:
            await self.stat(path, request_timeout=request_timeout)
            return True
        except SandboxError as error:
            if error.code == "not_found":
                return False
            raise

    async def make_dir(self, path: str, *, request_timeout: float | None = None) -> bool:
        """Makes a folder and its parents. Returns whether it did not exist before."""
        try:
            await self._agent.call("Filesystem/MakeDir", {"path": path}, request_timeout=request_timeout)
            return True
        except SandboxError as error:
            if error.code == "already_exists":
                return False
            raise

    async def move(
        self, source: str, destination: str, *, request_timeout: float | None = None
    ) -> FileInfo:
        """Moves a file or folder, and replaces the destination."""
        message = {"source": source, "destination": destination}
        reply = await self._agent.call("Filesystem/Move", message, request_timeout=request_timeout)
        return file_info(reply["entry"])

    async def remove(self, path: str, *, request_timeout: float | None = None) -> None:
        """Removes a file, or a folder with its contents. A missing path is not an error."""
        await self._agent.call("Filesystem/Remove", {"path": path}, request_timeout=request_timeout)

    async def watch(self, path: str, *, recursive: bool = False) -> AsyncFileWatch:
        """Watches a folder for changes. The watch is active when this returns."""
        events = self._agent.stream("Filesystem/WatchDir", {"path": path, "recursive": recursive})
        async for message in events:
            if "start" in message:
                break
        return AsyncFileWatch(events)

    async def download_url(self, path: str, *, expires_in: float | None = None) -> str:
        """A URL that reads this one file, without the token."""
        absolute = await self._absolute(path)
        query = file_signature(absolute, "read", self._token, expires_in)
        return f"{self._public_url}/download/{quote(absolute[1:])}?{urlencode(query)}"

    async def upload_url(self, path: str, *, expires_in: float | None = None) -> str:
        """A URL that writes this one file. Post a form with the field ``file`` to it."""
        absolute = await self._absolute(path)
        query = {**file_signature(absolute, "write", self._token, expires_in), "path": absolute}
        return f"{self._public_url}/upload?{urlencode(query)}"

    async def _post(self, boundary: str, content: Any) -> None:
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        async with self._agent.request("POST", "/upload", headers=headers, content=content) as response:
            await read_body(response, MAX_REPORT)

    async def _download_path(self, path: str) -> str:
        return f"/download/{quote((await self._absolute(path))[1:])}"

    async def _absolute(self, path: str) -> str:
        """Relative paths begin in the home folder, which is asked from the agent."""
        if path.startswith("/"):
            return path
        home = (await self.stat("~")).path
        inner = path[1:].lstrip("/") if path.startswith("~") else path
        return f"{home}/{inner}" if inner else home


def _archive_path(path: str) -> str:
    return f"/archive?path={quote(path or '~', safe='')}"


def _form(path: str) -> tuple[str, bytes, bytes]:
    """The boundary of an upload, and the parts before and after the file."""
    boundary = f"sandbox-platform-{uuid.uuid4()}"
    part = f"--{boundary}\r\nContent-Disposition: form-data; name="
    head = f'{part}"path"\r\n\r\n{path}\r\n{part}"file"; filename="file"\r\n\r\n'
    return boundary, head.encode(), f"\r\n--{boundary}--\r\n".encode()
