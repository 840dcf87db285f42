# Generated from _async by generate_sync.py. Do not edit.
from __future__ import annotations

import json
from typing import Any, Iterator, Callable, Literal, Mapping, Sequence
from urllib.parse import quote

import httpx

from .._generated.api import AddSandboxPortBody, Sandbox as SandboxInfo, SandboxSummary
from ..connection import public_url, read_connection, server_of
from ..errors import SandboxError
from ..stream_breaker import StreamBreaker
from ..values import CodeContext, CodeResult, Execution, code_result
from .agent_client import AgentClient
from .api_client import ApiClient
from .commands import Commands
from .deadline import Deadline
from .files import Files
from .http_exchange import new_client
from .ports import Ports
from .pty import Pty


class Sandbox:
    """A sandbox of the platform. As a context manager it ends with its block."""

    def __init__(self, api: ApiClient, made: Mapping[str, Any]) -> None:
        self._api = api
        self.id: str = made["sandbox_id"]
        #: The host name of the sandbox, with the gateway's port.
        self.domain: str = made["sandbox_domain"]
        #: The token for the agent and the protected ports.
        self.access_token: str = made["envd_access_token"]
        #: The URL of the agent, for programs that can resolve the name.
        self.url = public_url(self.domain, api.connection)
        self._agent = AgentClient(api.client, server_of(self.domain, api.connection), self.access_token)
        self.files = Files(self._agent, self.access_token, self.url)
        self.commands = Commands(self._agent, self.files)
        self.pty = Pty(self._agent)
        self.ports = Ports(api, self.id, self.domain, self.access_token)

    @classmethod
    def create(
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
    ) -> Sandbox:
        """Makes a sandbox and waits until it runs.

        ``timeout`` is in seconds; ``more`` has every other field of ``POST /v1/sandboxes``. Raises a SandboxError with
        the code of the refusal; ``sandbox_failed`` when it did not come up.
        """
        api = ApiClient(read_connection(api_url, api_key, gateway_url), new_client())
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
            made = api.call("createSandbox", body={**body, **(more or {})})
        except BaseException:
            api.client.close()
            raise
        if made["status"] == "failed":
            api.client.close()
            reason = (made.get("failure") or {}).get("message") or made.get("reason")
            raise SandboxError("sandbox_failed", f"{made['sandbox_id']} did not come up: {reason}")
        return cls(api, made)

    @classmethod
    def connect(
        cls,
        sandbox_id: str,
        *,
        timeout: int | None = None,
        api_url: str | None = None,
        api_key: str | None = None,
        gateway_url: str | None = None,
    ) -> Sandbox:
        """Connects to an existing sandbox. A paused one is resumed. ``timeout`` counts from now."""
        api = ApiClient(read_connection(api_url, api_key, gateway_url), new_client())
        body = {} if timeout is None else {"timeout": timeout}
        try:
            return cls(api, api.call("connectSandbox", path={"sandbox_id": sandbox_id}, body=body))
        except BaseException:
            api.client.close()
            raise

    @classmethod
    def get(
        cls,
        sandbox_id: str,
        *,
        api_url: str | None = None,
        api_key: str | None = None,
        gateway_url: str | None = None,
    ) -> Sandbox:
        """A sandbox as it is: a paused one stays paused."""
        api = ApiClient(read_connection(api_url, api_key, gateway_url), new_client())
        try:
            return cls(api, api.call("getSandbox", path={"sandbox_id": sandbox_id}))
        except BaseException:
            api.client.close()
            raise

    @staticmethod
    def list(
        *,
        status: str | None = None,
        metadata: Mapping[str, str] | None = None,
        search: str | None = None,
        project_id: str | None = None,
        api_url: str | None = None,
        api_key: str | None = None,
        gateway_url: str | None = None,
    ) -> Iterator[SandboxSummary]:
        """The sandboxes that the caller may see, newest first."""
        query: dict[str, Any] = {"limit": 100}
        filters = {"status": status, "search": search, "project_id": project_id}
        query.update({key: value for key, value in filters.items() if value is not None})
        if metadata is not None:
            query["metadata"] = json.dumps(dict(metadata))
        with new_client() as client:
            api = ApiClient(read_connection(api_url, api_key, gateway_url), client)
            while True:
                page = api.call("listSandboxes", query=query)
                for sandbox in page["sandboxes"]:
                    yield sandbox
                query["cursor"] = page["pagination"]["next_cursor"]
                if query["cursor"] is None:
                    return

    def info(self) -> SandboxInfo:
        """The current fields of the sandbox."""
        info: SandboxInfo = self._api.call("getSandbox", path={"sandbox_id": self.id})
        return info

    def web_url(self, page: Literal["terminal", "files"] = "terminal") -> str:
        """The link to its terminal or its files in a browser.

        The access token in it stands behind the ``#``, which browsers send to no server; who has the link has the
        sandbox.
        """
        return f"{self.url}/{page}#token={quote(self.access_token, safe='')}"

    def run_code(
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
    ) -> Execution:
        """Runs code in a context that keeps its state: Python, JavaScript, TypeScript, Bash, R, Java.

        After ``timeout`` seconds the code is interrupted: ``timed_out``. Without one there is no limit.
        """
        context_id = context.id if isinstance(context, CodeContext) else context or ""
        message = {
            "code": code,
            "language": language or ("" if context_id else "python"),
            "contextId": context_id,
            "envVars": dict(envs or {}),
        }
        execution = Execution()
        breaker = StreamBreaker(timeout)

        def interrupt() -> None:
            breaker.break_off()

        is_silent = False
        with Deadline(timeout, interrupt) as deadline:
            try:
                for event in self._agent.stream("ExecutionService/Execute", message, breaker):
                    if "stdout" in event:
                        execution.stdout += event["stdout"]["content"]
                        if on_stdout is not None:
                            on_stdout(event["stdout"]["content"])
                    elif "stderr" in event:
                        execution.stderr += event["stderr"]["content"]
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
        return execution

    def create_code_context(self, language: str = "python", *, cwd: str = "") -> CodeContext:
        """Makes a new code context."""
        made = self._agent.call("ContextService/CreateContext", {"language": language, "cwd": cwd})
        return CodeContext(made["id"], made["language"], made["cwd"])

    def destroy_code_context(self, context: CodeContext | str) -> None:
        context_id = context.id if isinstance(context, CodeContext) else context
        self._agent.call("ContextService/DestroyContext", {"contextId": context_id})

    def pause(self) -> None:
        """Freezes the sandbox. Memory, processes and disk are kept."""
        self._api.call("pauseSandbox", path={"sandbox_id": self.id}, body={})

    def resume(self) -> None:
        self._api.call("resumeSandbox", path={"sandbox_id": self.id}, body={})

    def set_timeout(self, seconds: int) -> None:
        """Sets the timeout, which counts from the start of the running phase.

        For a timeout that counts from now, use ``connect`` with ``timeout``.
        """
        self._api.call("setSandboxTimeout", path={"sandbox_id": self.id}, body={"timeout": seconds})

    def terminate(self) -> None:
        """Ends the sandbox. It stays readable as ``terminated``. Succeeds if it has already ended."""
        self._api.call("terminateSandbox", path={"sandbox_id": self.id})

    def delete(self) -> None:
        """Ends the sandbox and removes its data."""
        self._api.call("deleteSandbox", path={"sandbox_id": self.id})

    def close(self) -> None:
        """Closes the connections. The sandbox continues."""
        self._agent.close()
        self._api.client.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.terminate()
        finally:
            self.close()
