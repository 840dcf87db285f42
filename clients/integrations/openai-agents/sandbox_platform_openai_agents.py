"""A sandbox client of the OpenAI Agents SDK whose sessions are sandboxes of the platform."""

from __future__ import annotations

import io
import tempfile
import uuid
from pathlib import Path
from typing import Any, Literal, Sequence, cast
from urllib.parse import urlsplit

from agents.sandbox import Manifest
from agents.sandbox.errors import (
    ExecNonZeroError,
    ExecTimeoutError,
    ExecTransportError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.session import BaseSandboxSession, SandboxSession, SandboxSessionState
from agents.sandbox.session.bounded_read import collect_bounded
from agents.sandbox.session.sandbox_client import BaseSandboxClient, BaseSandboxClientOptions
from agents.sandbox.session.tar_workspace import shell_tar_exclude_args
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot
from agents.sandbox.types import ExecResult, ExposedPortEndpoint, User
from sandbox_platform import AsyncSandbox, SandboxError


class PlatformSandboxOptions(BaseSandboxClientOptions):
    type: Literal["sandbox-platform"] = "sandbox-platform"
    #: The name or id of a template; None: ``base``.
    template: str | None = None
    #: Seconds until a sandbox ends by itself.
    timeout: int = 3600
    envs: dict[str, str] = {}
    allow_internet_access: bool = True
    #: Ports that ``resolve_exposed_port`` may return. The URLs carry a signature.
    exposed_ports: tuple[int, ...] = ()
    #: A session that ends pauses its sandbox; ``resume`` then continues with its processes and its files.
    pause_on_exit: bool = False


class PlatformSandboxState(SandboxSessionState):
    type: Literal["sandbox-platform"] = "sandbox-platform"
    options: PlatformSandboxOptions
    sandbox_id: str


class PlatformSandboxSession(BaseSandboxSession):
    state: PlatformSandboxState

    def __init__(self, state: PlatformSandboxState, sandbox: AsyncSandbox) -> None:
        self.state = state
        self._sandbox = sandbox
        self._is_closed = False

    async def exec(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: str | User | None = None,
    ) -> ExecResult:
        # The platform changes the user itself, so an image needs no `sudo`.
        words = self._prepare_exec_command(*command, shell=shell, user=None)
        return await self._run(words, timeout, user.name if isinstance(user, User) else user)

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        return await self._run([str(word) for word in command], timeout, None)

    async def _run(self, words: Sequence[str], timeout: float | None, user: str | None) -> ExecResult:
        commands = self._sandbox.commands
        # The workspace is made by one of the first commands, which cannot start in it.
        cwd = self.state.manifest.root if self.state.workspace_root_ready else "/"
        try:
            result = await commands.run(words, cwd=cwd, timeout=timeout, user=user)
        except SandboxError as error:
            if error.code == "timed_out":
                raise ExecTimeoutError(command=words, timeout_s=timeout, cause=error) from error
            raise ExecTransportError(command=words, context=self._context(error), cause=error) from error
        return ExecResult(
            stdout=result.stdout.encode(), stderr=result.stderr.encode(), exit_code=result.exit_code
        )

    async def _validate_path_access(self, path: Path | str, *, for_write: bool = False) -> Path:
        return await self._validate_remote_path_access(path, for_write=for_write)

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        target = await self._readable(path, user)
        try:
            return io.BytesIO(await self._sandbox.files.read_bytes(target.as_posix()))
        except SandboxError as error:
            raise self._read_error(path, error) from error

    async def _read_bounded(self, path: Path, *, max_bytes: int) -> bytes:
        stream = self._sandbox.files.read_stream((await self._readable(path, None)).as_posix())
        try:
            return await collect_bounded(stream, max_bytes)
        except SandboxError as error:
            raise self._read_error(path, error) from error
        finally:
            await stream.aclose()

    async def _readable(self, path: Path, user: str | User | None) -> Path:
        return await (self._check_read_with_exec(path, user=user) if user else self._validate_path_access(path))

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        if user:
            target = await self._check_write_with_exec(path, user=user)
        else:
            target = await self._validate_path_access(path, for_write=True)
        content = cast("str | bytes", data.read())
        try:
            await self._sandbox.files.write(target.as_posix(), content)
            if user:
                name = user.name if isinstance(user, User) else user
                await self._sandbox.commands.run(["chown", f"{name}:", target.as_posix()], check=True)
        except SandboxError as error:
            raise WorkspaceArchiveWriteError(path=path, context=self._context(error), cause=error) from error

    async def running(self) -> bool:
        return not self._is_closed and (await self._sandbox.info())["status"] == "running"

    async def persist_workspace(self) -> io.IOBase:
        root, archive = self.state.manifest.root, _temporary_archive()
        excluded = " ".join(shell_tar_exclude_args(self._persist_workspace_skip_relpaths()))
        try:
            await self._checked("sh", "-c", f'tar -cf "$1" -C "$2" {excluded} .', "sh", archive, root)
            packed = tempfile.TemporaryFile()
            async for piece in self._sandbox.files.read_stream(archive):
                packed.write(piece)
        except (SandboxError, ExecNonZeroError) as error:
            raise WorkspaceArchiveReadError(path=Path(root), cause=error) from error
        finally:
            await self._sandbox.files.remove(archive)
        packed.seek(0)
        return cast(io.IOBase, packed)

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        root, archive = self.state.manifest.root, _temporary_archive()
        try:
            # The sandbox unpacks it, so a hostile archive reaches no more than the commands of the agent do.
            await self._sandbox.files.write(archive, cast(bytes, data.read()))
            await self._sandbox.files.make_dir(root)
            await self._checked("tar", "-xf", archive, "-C", root)
        except (SandboxError, ExecNonZeroError) as error:
            raise WorkspaceArchiveWriteError(path=Path(root), cause=error) from error
        finally:
            await self._sandbox.files.remove(archive)

    async def _checked(self, *words: str) -> None:
        result = await self.exec(*words, shell=False)
        if not result.ok():
            raise ExecNonZeroError(result, command=words)

    async def _prepare_backend_workspace(self) -> None:
        await self._sandbox.files.make_dir(self.state.manifest.root)

    async def _resolve_exposed_port(self, port: int) -> ExposedPortEndpoint:
        url = urlsplit(self._sandbox.ports.url(port, signed="write"))
        is_tls = url.scheme == "https"
        port = url.port or (443 if is_tls else 80)
        return ExposedPortEndpoint(host=url.hostname or "", port=port, tls=is_tls, query=url.query)

    async def _shutdown_backend(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await (self._sandbox.pause() if self.state.options.pause_on_exit else self._sandbox.delete())
        finally:
            await self._sandbox.close()

    def _read_error(self, path: Path, error: SandboxError) -> Exception:
        if error.code == "not_found":
            return WorkspaceReadNotFoundError(path=path, cause=error)
        return WorkspaceArchiveReadError(path=path, context=self._context(error), cause=error)

    def _context(self, error: SandboxError) -> dict[str, object]:
        return {"sandbox_id": self._sandbox.id, "code": error.code}


class PlatformSandboxClient(BaseSandboxClient[PlatformSandboxOptions]):
    """Makes sandboxes with the connection of ``PLATFORM_URL`` and ``PLATFORM_API_KEY``."""

    backend_id = "sandbox-platform"
    supports_default_options = True

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: PlatformSandboxOptions | None = None,
    ) -> SandboxSession:
        options = options or PlatformSandboxOptions()
        manifest = self._validate_manifest_for_create(manifest or Manifest())
        session_id = uuid.uuid4()
        state = PlatformSandboxState(
            session_id=session_id,
            snapshot=resolve_snapshot(snapshot, str(session_id)),
            manifest=manifest,
            exposed_ports=options.exposed_ports,
            options=options,
            sandbox_id="",
        )
        sandbox = await _new_sandbox(options, manifest)
        state.sandbox_id = sandbox.id
        return self._wrap_session(PlatformSandboxSession(state, sandbox))

    async def delete(self, session: SandboxSession) -> SandboxSession:
        await session.shutdown()
        return session

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """Connects to the sandbox of a session. If it has ended, a new one gets the snapshot of the workspace."""
        if not isinstance(state, PlatformSandboxState):
            raise TypeError("The state is not that of a session of the platform")
        state.assert_path_grants_rebound()
        try:
            sandbox = await AsyncSandbox.connect(state.sandbox_id, timeout=state.options.timeout)
            is_same = True
        except SandboxError as error:
            if error.code not in ("sandbox_ended", "not_found"):
                raise
            sandbox = await _new_sandbox(state.options, state.manifest)
            is_same = False
        state.sandbox_id = sandbox.id
        state.workspace_root_ready = state.workspace_root_ready and is_same
        session = PlatformSandboxSession(state, sandbox)
        session._set_start_state_preserved(is_same)
        return self._wrap_session(session)

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        return self._deserialize_session_state_payload(payload, PlatformSandboxState)


async def _new_sandbox(options: PlatformSandboxOptions, manifest: Manifest) -> AsyncSandbox:
    return await AsyncSandbox.create(
        options.template,
        timeout=options.timeout,
        envs={**options.envs, **await manifest.environment.resolve()},
        allow_internet_access=options.allow_internet_access,
    )


def _temporary_archive() -> str:
    return f"/tmp/.workspace-{uuid.uuid4().hex}.tar"
