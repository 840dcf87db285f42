"""The sandbox client of the OpenAI Agents SDK, with agents whose model follows a script."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any, Awaitable, Callable

import httpx
import pytest
from agents import RunConfig, Runner
from agents.sandbox import LocalSnapshotSpec, Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.capabilities import Filesystem, Shell
from agents.sandbox.entries import File
from agents.sandbox.errors import ExecTimeoutError, InvalidManifestPathError, WorkspaceReadNotFoundError
from agents.sandbox.session import SandboxSession
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseCustomToolCall
from sandbox_platform import AsyncSandbox
from sandbox_platform_openai_agents import PlatformSandboxClient, PlatformSandboxOptions, PlatformSandboxState

client = PlatformSandboxClient()


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    return asyncio.run(work())


async def with_session(work: Callable[[SandboxSession], Awaitable[None]], **options: Any) -> None:
    session = await client.create(options=PlatformSandboxOptions(**options))
    async with session:
        await work(session)


def test_an_agent_works_in_a_sandbox_of_its_own() -> None:
    patch = "*** Begin Patch\n*** Update File: sum.py\n@@\n-print(0)\n+print(sum(range(10)))\n*** End Patch\n"
    model = ScriptedModel(
        [
            [function_call("exec_command", {"cmd": "ls"}, call_id="1")],
            [ResponseCustomToolCall(type="custom_tool_call", name="apply_patch", input=patch, call_id="2")],
            [function_call("exec_command", {"cmd": "python3 sum.py && hostname"}, call_id="3")],
            [assistant_message("It is 45")],
        ]
    )
    agent = SandboxAgent(
        name="Adder",
        model=model,
        instructions="Use the files.",
        default_manifest=Manifest(entries={"sum.py": File(content=b"print(0)\n")}),
        capabilities=[Shell(), Filesystem()],
    )
    config = RunConfig(sandbox=SandboxRunConfig(client=client), tracing_disabled=True)
    result = run(lambda: Runner.run(agent, "Add the numbers", run_config=config))
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    assert outputs[0].endswith("\nProcess exited with code 0\nOutput:\nsum.py\n")
    assert outputs[1] == "Updated sum.py"
    answer, sandbox_id = outputs[2].split("Output:\n")[1].splitlines()
    assert (answer, result.final_output) == ("45", "It is 45")

    async def running() -> list[str]:
        return [each["sandbox_id"] async for each in AsyncSandbox.list(status="running")]

    assert sandbox_id.startswith("sbx-") and sandbox_id not in run(running)


def test_commands_have_users_timeouts_and_exit_codes() -> None:
    async def work(session: SandboxSession) -> None:
        result = await session.exec("id -un; pwd; echo error >&2; exit 3", user="nobody")
        assert (result.stdout, result.stderr, result.exit_code) == (b"nobody\n/workspace\n", b"error\n", 3)
        with pytest.raises(ExecTimeoutError):
            await session.exec("sleep 1000", timeout=1)
        assert (await session.exec("pgrep -f 'sleep 100[0]'")).exit_code == 1

    run(lambda: with_session(work))


def test_files_stay_in_the_workspace_and_belong_to_their_writer() -> None:
    async def work(session: SandboxSession) -> None:
        await session.exec("chmod 777 . && ln -s /etc/passwd link")
        await session.write(Path("notes/a.bin"), io.BytesIO(bytes(range(256))))
        assert (await session.read(Path("notes/a.bin"))).read() == bytes(range(256))
        assert await session.read_bounded(Path("notes/a.bin"), max_bytes=3) == b"\0\1\2"
        await session.write(Path("own"), io.BytesIO(b"text"), user="nobody")
        assert (await session.exec("stat -c %U own")).stdout == b"nobody\n"
        for user in (None, "nobody"):
            with pytest.raises(WorkspaceReadNotFoundError):
                await session.read(Path("missing"), user=user)
        for path in ("/etc/passwd", "../etc/passwd", "link"):
            with pytest.raises(InvalidManifestPathError):
                await session.read(Path(path))
            with pytest.raises(InvalidManifestPathError):
                await session.write(Path(path), io.BytesIO(b""))

    run(lambda: with_session(work))


def test_an_exposed_port_has_a_url_that_needs_no_token() -> None:
    async def work(session: SandboxSession) -> None:
        await session.exec("echo served > index.html; nohup python3 -m http.server 8000 >/dev/null 2>&1 &")
        connect = "import socket; socket.create_connection(('127.0.0.1', 8000))"
        await session.exec(f'until python3 -c "{connect}"; do sleep 0.1; done', timeout=60)
        endpoint = await session.resolve_exposed_port(8000)
        # The name of a sandbox below `.localhost` is not in every resolver.
        url = httpx.URL(endpoint.url_for("http"))
        headers = {"Host": f"{url.host}:{url.port}"}
        reply = httpx.get(url.copy_with(host="127.0.0.1"), headers=headers)
        assert (reply.status_code, reply.text) == (200, "served\n")

    run(lambda: with_session(work, exposed_ports=(8000,)))


def test_a_paused_session_continues_with_its_processes() -> None:
    async def work() -> None:
        session = await client.create(options=PlatformSandboxOptions(pause_on_exit=True))
        async with session:
            await session.exec("echo kept > file; setsid sleep 1000 >/dev/null 2>&1 &")
        payload = client.serialize_session_state(session.state)
        resumed = await client.resume(client.deserialize_session_state(payload))
        try:
            await resumed.start()
            assert (await resumed.exec("cat file && pgrep -f 'sleep 100[0]' >/dev/null")).stdout == b"kept\n"
            assert await resumed.running()
        finally:
            resumed.state.options = PlatformSandboxOptions()
            await client.delete(resumed)
        assert not await resumed.running()

    run(work)


def test_a_session_that_has_ended_gets_its_workspace_in_a_new_sandbox(tmp_path: Path) -> None:
    async def work() -> None:
        session = await client.create(snapshot=LocalSnapshotSpec(base_path=tmp_path), options=PlatformSandboxOptions())
        async with session:
            await session.exec("mkdir app && chmod 700 app && echo kept > app/file")
            await session.exec("ln -s app/file link && ln -s /usr/bin/python3 python")
        payload = client.serialize_session_state(session.state)
        resumed = await client.resume(client.deserialize_session_state(payload))
        async with resumed:
            assert isinstance(resumed.state, PlatformSandboxState)
            assert resumed.state.sandbox_id != session.state.sandbox_id
            result = await resumed.exec("cat link; stat -c %a app; readlink python; ls -A /tmp")
            assert result.stdout == b"kept\n700\n/usr/bin/python3\nopenai-agents\n"

    run(work)
