from __future__ import annotations

import builtins
import json
from datetime import datetime
from typing import Any, AsyncIterator, Callable, Literal, Mapping, Sequence
from urllib.parse import quote

import httpx

from .._generated.api import AddSandboxPortBody, Sandbox as SandboxInfo, SandboxMetrics, SandboxSummary
from ..connection import public_url, read_connection, server_of
from ..errors import SandboxError
from ..stream_breaker import StreamBreaker
from ..values import MAX_OUTPUT, CodeContext, CodeResult, Execution, OutputText, code_result
from .agent_client import AsyncAgentClient
from .api_client import AsyncApiClient
from .commands import AsyncCommands
from .deadline import AsyncDeadline
from .files import AsyncFiles
from .git import AsyncGit
from .http_exchange import new_client
from .ports import AsyncPorts
from .pty import AsyncPty


class AsyncSandbox:
    """A sandbox of the platform. As a context manager it ends with its block."""

    def __init__(self, api: AsyncApiClient, made: Mapping[str, Any]) -> None:
        self._api = api
        self.id: str = made["sandbox_id"]
        #: The host name of the sandbox, with the gateway's port.
        self.domain: str = made["sandbox_domain"]
        #: The token for the agent and the protected ports.
        self.access_token: str = made["envd_access_token"]
        #: The URL of the agent, for programs that can resolve the name.
        self.url = public_url(self.domain, api.connection)
        server, timeout = server_of(self.domain, api.connection), api.connection.request_timeout
        self._agent = AsyncAgentClient(api.client, server, self.access_token, timeout)
        self.files = AsyncFiles(self._agent, self.access_token, self.url)
        self.commands = AsyncCommands(self._agent)
        self.pty = AsyncPty(self._agent)
        self.git = AsyncGit(self.commands)
        self.ports = AsyncPorts(api, self.id, self.domain, self.access_token)

    @classmethod
    async def create(
        cls,
        template: str | None = None,
        *,
        name: str | None = None,
        timeout: int | None = None,
        auto_pause: bool | None = None,
        envs: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
        cpu_count: int | None = None,
        memory_mb: int | None = None,
        storage_gb: int | None = None,
        secure: bool | None = None,
        allow_internet_access: bool | None = None,
        ports: Sequence[AddSandboxPortBody] | None = None,
        more: Mapping[str, Any] | None = None,
        api_url: str | None = None,
        api_key: str | None = None,
        gateway_url: str | None = None,
        request_timeout: float | None = None,
    ) -> AsyncSandbox:
        """Makes a sandbox and waits until it runs.

        ``timeout`` is in seconds; ``more`` has every other field of ``POST /v1/sandboxes``. Raises a SandboxError with
        the code of the refusal; ``sandbox_failed`` when it did not come up.
        """
        api = AsyncApiClient(read_connection(api_url, api_key, gateway_url, request_timeout), new_client())
        fields = {
            "template": template,
            "name": name,
            "timeout": timeout,
            "auto_pause": auto_pause,
            "env_vars": envs,
            "metadata": metadata,
            "cpu_count": cpu_count,
            "memory_mb": memory_mb,
            "storage_gb": storage_gb,
            "secure": secure,
            "allow_internet_access": allow_internet_access,
            "custom_ports": ports,
        }
        body = {key: value for key, value in fields.items() if value is not None}
        try:
            made = await api.call("createSandbox", body={**body, **(more or {})})
        except BaseException:
            await api.client.aclose()
            raise
        if made["status"] == "failed":
            await api.client.aclose()
            reason = (made.get("failure") or {}).get("message") or made.get("reason")
            raise SandboxError("sandbox_failed", f"{made['sandbox_id']} did not come up: {reason}")
        return cls(api, made)

    @classmethod
    async def connect(
        cls,
        sandbox_id: str,
        *,
        timeout: int | None = None,
        api_url: str | None = None,
        api_key: str | None = None,
        gateway_url: str | None = None,
        request_timeout: float | None = None,
    ) -> AsyncSandbox:
        """Connects to an existing sandbox. A paused one is resumed. ``timeout`` counts from now."""
        api = AsyncApiClient(read_connection(api_url, api_key, gateway_url, request_timeout), new_client())
        body = {} if timeout is None else {"timeout": timeout}
        try:
            return cls(api, await api.call("connectSandbox", path={"sandbox_id": sandbox_id}, body=body))
        except BaseException:
            await api.client.aclose()
            raise

    @classmethod
    async def get(
        cls,
        sandbox_id: str,
        *,
        api_url: str | None = None,
        api_key: str | None = None,
        gateway_url: str | None = None,
        request_timeout: float | None = None,
    ) -> AsyncSandbox:
        """A sandbox as it is: a paused one stays paused."""
        api = AsyncApiClient(read_connection(api_url, api_key, gateway_url, request_timeout), new_client())
        try:
            return cls(api, await api.call("getSandbox", path={"sandbox_id": sandbox_id}))
        except BaseException:
            await api.client.aclose()
            raise

    @staticmethod
    async def list(
        *,
        status: str | None = None,
        metadata: Mapping[str, str] | None = None,
        search: str | None = None,
        project_id: str | None = None,
        api_url: str | None = None,
        api_key: str | None = None,
        gateway_url: str | None = None,
        request_timeout: float | None = None,
    ) -> AsyncIterator[SandboxSummary]:
        """The sandboxes that the caller may see, newest first."""
        query = {"status": status, "search": search, "project_id": project_id}
        if metadata is not None:
            query["metadata"] = json.dumps(dict(metadata))
        async with new_client() as client:
            api = AsyncApiClient(read_connection(api_url, api_key, gateway_url, request_timeout), client)
            async for sandbox in api.all_pages("listSandboxes", "sandboxes", query, None):
                yield sandbox

    async def info(self, *, request_timeout: float | None = None) -> SandboxInfo:
        """The current fields of the sandbox."""
        info: SandboxInfo = await self._call("getSandbox", request_timeout)
        return info

    async def metrics(
        self,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        step: float | None = None,
        request_timeout: float | None = None,
    ) -> builtins.list[SandboxMetrics]:
        """Its use of processors, memory and disk, as averages of each ``step`` (default 5 seconds), oldest first.

        The default is the last 5 minutes.
        """
        query: dict[str, Any] = {}
        if start is not None:
            query["start"] = int(start.timestamp() * 1000)
        if end is not None:
            query["end"] = int(end.timestamp() * 1000)
        if step is not None:
            query["step"] = step
        metrics: builtins.list[SandboxMetrics] = (
            await self._call("getSandboxMetrics", request_timeout, query=query)
        )["metrics"]
        return metrics

    def web_url(self, page: Literal["terminal", "files"] = "terminal") -> str:
        """The link to its terminal or its files in a browser.

        The access token in it stands behind the ``#``, which browsers send to no server; who has the link has the
        sandbox.
        """
        return f"{self.url}/{page}#token={quote(self.access_token, safe='')}"

    async def run_code(
        self,
        code: str,
        *,
        language: str | None = None,
        context: CodeContext | str | None = None,
        envs: Mapping[str, str] | None = None,
        on_stdout: Callable[[str], Any] | None = None,
        on_stderr: Callable[[str], Any] | None = None,
        on_result: Callable[[CodeResult], Any] | None = None,
        timeout: float | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> Execution:
        """Runs code in a context that keeps its state: Python, JavaScript, TypeScript, Bash, R, Java.

        After ``timeout`` seconds the code is interrupted: ``timed_out``. Without one there is no limit. Longer outputs
        than ``max_output`` characters lose their beginning.
        """
        context_id = context.id if isinstance(context, CodeContext) else context or ""
        message = {
            "code": code,
            "language": language or ("" if context_id else "python"),
            "contextId": context_id,
            "envVars": dict(envs or {}),
        }
        execution = Execution()
        stdout, stderr = OutputText(max_output), OutputText(max_output)
        breaker = StreamBreaker(timeout)

        async def interrupt() -> None:
            breaker.break_off()

        is_silent = False
        async with AsyncDeadline(timeout, interrupt) as deadline:
            try:
                async for event in self._agent.stream("ExecutionService/Execute", message, breaker):
                    if "stdout" in event:
                        stdout.add_text(event["stdout"]["content"])
                        if on_stdout is not None:
                            on_stdout(event["stdout"]["content"])
                    elif "stderr" in event:
                        stderr.add_text(event["stderr"]["content"])
                        if on_stderr is not None:
                            on_stderr(event["stderr"]["content"])
                    elif "error" in event:
                        execution.error = event["error"]
                        execution.exit_code = 1
                    elif "result" in event:
                        result = code_result(event["result"])
                        if result.is_main_result:
                            execution.text = result.text
                            execution.exit_code = event["result"]["exitCode"]
                            execution.execution_count = event["result"]["executionCount"]
                        execution.results.append(result)
                        if on_result is not None:
                            on_result(result)
            except SandboxError as error:
                # After the same time of silence the connection ends by itself, sometimes before the deadline acts.
                is_silent = isinstance(error.__cause__, httpx.ReadTimeout)
                if not (is_silent or deadline.is_over):
                    raise
        if is_silent or deadline.is_over:
            raise SandboxError("timed_out", f"The code did not end in {timeout} s and was interrupted")
        execution.stdout, execution.stderr = stdout.text, stderr.text
        return execution

    async def create_code_context(self, language: str = "python", *, cwd: str = "") -> CodeContext:
        """Makes a new code context."""
        made = await self._agent.call("ContextService/CreateContext", {"language": language, "cwd": cwd})
        return CodeContext(made["id"], made["language"], made["cwd"])

    async def destroy_code_context(self, context: CodeContext | str) -> None:
        context_id = context.id if isinstance(context, CodeContext) else context
        await self._agent.call("ContextService/DestroyContext", {"contextId": context_id})

    async def pause(self, *, request_timeout: float | None = None) -> None:
        """Freezes the sandbox. Memory, processes and disk are kept."""
        await self._call("pauseSandbox", request_timeout, body={})

    async def resume(self, *, request_timeout: float | None = None) -> None:
        await self._call("resumeSandbox", request_timeout, body={})

    async def restart(self, *, request_timeout: float | None = None) -> None:
        """Ends its processes and starts it again on its disk."""
        await self._call("restartSandbox", request_timeout, body={})

    async def set_timeout(self, seconds: int, *, request_timeout: float | None = None) -> None:
        """Sets the timeout, which counts from the start of the running phase.

        For a timeout that counts from now, use ``connect`` with ``timeout``.
        """
        await self._call("setSandboxTimeout", request_timeout, body={"timeout": seconds})

    async def terminate(self, *, request_timeout: float | None = None) -> None:
        """Ends the sandbox. It stays readable as ``terminated``. Succeeds if it has already ended."""
        await self._call("terminateSandbox", request_timeout)

    async def delete(self, *, request_timeout: float | None = None) -> None:
        """Ends the sandbox and removes its data."""
        await self._call("deleteSandbox", request_timeout)

    async def close(self) -> None:
        """Closes the connections. The sandbox continues."""
        await self._agent.close()
        await self._api.client.aclose()

    async def _call(self, operation: str, request_timeout: float | None, **more: Any) -> Any:
        path = {"sandbox_id": self.id}
        return await self._api.call(operation, path=path, request_timeout=request_timeout, **more)

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.terminate()
        finally:
            await self.close()
