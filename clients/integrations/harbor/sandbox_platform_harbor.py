"""An environment of Harbor whose tasks run in sandboxes of the platform."""

from __future__ import annotations

import math
from pathlib import Path
from typing import override

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
from harbor.environments.options import EnvironmentOptions
from harbor.models.trial.config import ResourceMode
from pydantic import Field
from sandbox_platform import AsyncSandbox, SandboxError


class PlatformOptions(EnvironmentOptions):
    template: str | None = Field(default=None, description="The template of all tasks, instead of their docker_image.")
    timeout_sec: int = Field(default=24 * 3600, ge=60, description="Seconds until a sandbox ends by itself.")


class PlatformEnvironment(BaseEnvironment):
    """One sandbox for each environment. The platform builds no Dockerfile: ``docker_image`` names a template."""

    options_model = PlatformOptions
    options: PlatformOptions
    _sandbox: AsyncSandbox | None = None

    @staticmethod
    @override
    def type() -> str:
        return "sandbox-platform"

    @classmethod
    @override
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        return EnvironmentResourceCapabilities(cpu_limit=True, memory_limit=True)

    @property
    @override
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    @property
    def _template(self) -> str | None:
        return self.options.template or self.task_env_config.docker_image

    @override
    def _validate_definition(self) -> None:
        if not self._template:
            raise ValueError(
                "The platform does not build a Dockerfile. Import the image of the task as a template, and name the "
                "template in docker_image of [environment] in task.toml, or in --environment-kwarg template=NAME."
            )

    @override
    async def start(self, force_build: bool) -> None:
        if force_build:
            raise ValueError("The platform does not build images; start without force_build.")
        storage_mb = self._effective_storage_mb
        self._sandbox = await AsyncSandbox.create(
            self._template,
            timeout=self.options.timeout_sec,
            envs=self._startup_env(),
            metadata={"harbor_session": self.session_id},
            cpu_count=self._resource_limit_value("cpu", auto_mode=ResourceMode.LIMIT),
            memory_mb=self._resource_limit_value("memory", auto_mode=ResourceMode.LIMIT),
            storage_gb=math.ceil(storage_mb / 1024) if storage_mb else None,
            allow_internet_access=not self._network_disabled,
        )
        try:
            if self.task_env_config.workdir:
                await self._sandbox.files.make_dir(self.task_env_config.workdir)
            await self.ensure_dirs(self._mount_targets(writable_only=True))
            await self._upload_environment_dir_after_start()
        except BaseException:
            await self.stop(delete=True)
            raise

    @override
    async def stop(self, delete: bool) -> None:
        """Deletes the sandbox, or else pauses it, with its memory and its disk."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is None:
            return
        try:
            await (sandbox.delete() if delete else sandbox.pause())
        finally:
            await sandbox.close()

    @override
    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        user = self._resolve_user(user)
        try:
            result = await self._running.commands.run(
                command,
                cwd=cwd or self.task_env_config.workdir,
                envs=self._merge_env(env),
                timeout=timeout_sec,
                user=None if user is None else str(user),
            )
        except SandboxError as error:
            if error.code == "timed_out":
                # As the environments of Harbor do: a TimeoutError would be taken for that of the agent.
                raise RuntimeError(f"Command timed out after {timeout_sec} seconds") from error
            raise
        return ExecResult(stdout=result.stdout, stderr=result.stderr, return_code=result.exit_code)

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await self._running.files.upload(source_path, target_path)

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self._running.files.upload_folder(source_dir, target_dir)

    @override
    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        await self._running.files.download(source_path, target_path)

    @override
    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        Path(target_dir).mkdir(parents=True, exist_ok=True)
        await self._running.files.download_folder(source_dir, target_dir)

    @property
    def _running(self) -> AsyncSandbox:
        if self._sandbox is None:
            raise RuntimeError("The environment is not running.")
        return self._sandbox
