"""The environment of Harbor, without its runner."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Awaitable, Callable

import pytest
from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
from harbor.models.trial.paths import TrialPaths
from sandbox_platform import AsyncSandbox
from sandbox_platform_harbor import PlatformEnvironment


def environment(folder: Path, config: dict[str, Any] | None = None, **more: Any) -> PlatformEnvironment:
    (folder / "environment").mkdir(exist_ok=True)
    return PlatformEnvironment(
        environment_dir=folder / "environment",
        environment_name="task",
        session_id="task__1__env",
        trial_paths=TrialPaths(folder / "trial"),
        task_env_config=EnvironmentConfig(**{"docker_image": "base", **(config or {})}),
        **more,
    )


def started(made: PlatformEnvironment, work: Callable[[PlatformEnvironment], Awaitable[None]]) -> None:
    async def main() -> None:
        await made.start(force_build=False)
        try:
            await work(made)
        finally:
            await made.stop(delete=True)

    asyncio.run(main())


async def running() -> list[str]:
    return [each["sandbox_id"] async for each in AsyncSandbox.list(status="running")]


def test_commands_have_the_settings_of_the_task_and_of_the_call(tmp_path: Path) -> None:
    async def work(made: PlatformEnvironment) -> None:
        result = await made.exec("id -un; pwd; echo $TASK-$CALL; nproc; echo error >&2; exit 3", env={"CALL": "b"})
        assert (result.stdout, result.stderr, result.return_code) == ("root\n/app\na-b\n1\n", "error\n", 3)
        made.default_user = "nobody"
        assert (await made.exec("id -un; pwd", cwd="/tmp")).stdout == "nobody\n/tmp\n"
        assert (await made.exec("id -u", user=0)).stdout == "0\n"
        with pytest.raises(RuntimeError, match="timed out after 1 seconds"):
            await made.exec("sleep 1000", timeout_sec=1)
        assert (await made.exec("pgrep -f 'sleep 100[0]'")).return_code == 1

    started(environment(tmp_path, {"workdir": "/app", "env": {"TASK": "a"}, "cpus": 1, "memory_mb": 512}), work)


def test_files_and_folders_go_in_and_out(tmp_path: Path) -> None:
    (tmp_path / "in/below").mkdir(parents=True)
    (tmp_path / "in/below/run.sh").write_text("echo ran")
    (tmp_path / "in/below/run.sh").chmod(0o755)

    async def work(made: PlatformEnvironment) -> None:
        await made.upload_dir(tmp_path / "in", "/opt/in")
        await made.upload_file(tmp_path / "in/below/run.sh", "/opt/one/file")
        assert (await made.exec("/opt/in/below/run.sh && cat /opt/one/file")).stdout == "ran\necho ran"
        await made.download_dir("/opt/in", tmp_path / "out/deep")
        await made.download_file("/opt/one/file", tmp_path / "one/deep/file")
        assert await made.is_dir("/opt/in") and not await made.is_file("/opt/in")

    started(environment(tmp_path), work)
    assert (tmp_path / "out/deep/below/run.sh").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "one/deep/file").read_text() == "echo ran"


def test_a_task_without_network_reaches_nothing(tmp_path: Path) -> None:
    async def work(made: PlatformEnvironment) -> None:
        assert made._sandbox is not None
        assert (await made._sandbox.info())["allow_internet_access"] is False

    policy = NetworkPolicy(network_mode=NetworkMode.NO_NETWORK)
    started(environment(tmp_path, network_policy=policy), work)


def test_a_task_with_only_a_dockerfile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not build a Dockerfile"):
        environment(tmp_path, {"docker_image": None})
    assert environment(tmp_path, {"docker_image": None}, template="base")._template == "base"
    with pytest.raises(ValueError, match="does not build images"):
        asyncio.run(environment(tmp_path).start(force_build=True))


def test_a_sandbox_that_is_kept_is_paused_and_one_whose_start_failed_is_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        made = environment(tmp_path)
        await made.start(force_build=False)
        assert made._sandbox is not None
        sandbox_id = made._sandbox.id
        await made.stop(delete=False)
        async with await AsyncSandbox.get(sandbox_id) as kept:
            assert (await kept.info())["status"] == "paused"
        with pytest.raises(Exception, match="not a directory"):
            await environment(tmp_path, {"workdir": "/etc/passwd/below"}).start(force_build=False)
        assert await running() == []

    asyncio.run(main())
