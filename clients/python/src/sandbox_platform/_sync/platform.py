# Generated from _async by generate_sync.py. Do not edit.
from __future__ import annotations

import time
from datetime import datetime
from typing import Any, Iterator, Callable, Literal, Mapping, Sequence

from .._generated.api import (
    ApiKey,
    CreatedApiKey,
    GetQuotaData,
    GetUsageSummaryData,
    ImportJob,
    Template,
    TemplateItem,
    Webhook,
    WebhookDelivery,
)
from ..connection import read_connection
from ..errors import SandboxError
from ..webhook_signature import WebhookEvent, verify
from .api_client import ApiClient
from .http_exchange import new_client

_FIRST_PAUSE = 0.2
_MAX_PAUSE = 2.0


class Platform:
    """What belongs to the account, and not to one sandbox. As a context manager it closes its connections."""

    def __init__(
        self,
        *,
        api_url: str | None = None,
        api_key: str | None = None,
        gateway_url: str | None = None,
        request_timeout: float | None = None,
    ) -> None:
        self._api = ApiClient(read_connection(api_url, api_key, gateway_url, request_timeout), new_client())
        self.templates = Templates(self._api)
        self.api_keys = ApiKeys(self._api)
        self.usage = UsageReports(self._api)
        self.webhooks = Webhooks(self._api)

    def close(self) -> None:
        self._api.client.close()

    def __enter__(self) -> Platform:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Templates:
    """Templates: the images of sandboxes with their defaults."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    def list(
        self,
        *,
        visibility: Literal["private", "account_shared", "public"] | None = None,
        usable: bool = False,
        request_timeout: float | None = None,
    ) -> Iterator[TemplateItem]:
        """The templates that the caller may see, newest first; with ``usable`` those that sandboxes can be made from."""
        query = {"visibility": visibility, "usable": "true" if usable else None}
        for template in self._api.all_pages("listTemplates", "templates", query, request_timeout):
            yield template

    def get(self, template: str, *, request_timeout: float | None = None) -> Template:
        """``template`` is an id, or the name of a built-in template."""
        path = {"template_id": template}
        found: Template = self._api.call("getTemplate", path=path, request_timeout=request_timeout)
        return found

    def import_(
        self,
        name: str,
        image: str,
        *,
        description: str | None = None,
        username: str | None = None,
        password: str | None = None,
        cpu_count: int | None = None,
        memory_mb: int | None = None,
        more: Mapping[str, Any] | None = None,
        on_progress: Callable[[ImportJob], Any] | None = None,
        request_timeout: float | None = None,
    ) -> Template:
        """Makes a template from an image of a registry, and waits until the image is imported.

        ``image`` is such as ``docker.io/library/python:3.13``; ``more`` has every other field of
        ``POST /v1/templates/import``. ``on_progress`` gets the state of the import when it has changed. Raises
        ``import_failed`` with the reason.
        """
        body = {
            "name": name,
            "external_image_url": image,
            "description": description,
            "external_registry_username": username,
            "external_registry_password": password,
            "default_cpu_count": cpu_count,
            "default_memory_mb": memory_mb,
            **(more or {}),
        }
        made = self._api.call("importTemplate", body=body, request_timeout=request_timeout)
        if "job_id" not in made:
            raise SandboxError("import_failed", made["message"])
        told = ""
        pause = _FIRST_PAUSE
        while True:
            path = {"job_id": made["job_id"]}
            job: ImportJob = self._api.call("getImportJob", path=path, request_timeout=request_timeout)
            if job["updated_at"] != told and on_progress is not None:
                on_progress(job)
            told = job["updated_at"]
            if job["status"] == "completed":
                return self.get(made["template_id"], request_timeout=request_timeout)
            if job["status"] in ("failed", "cancelled"):
                reason = job["error_message"] or job["status"]
                raise SandboxError("import_failed", f"The import of {image}: {reason}")
            time.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)

    def from_sandbox(
        self,
        sandbox_id: str,
        name: str,
        *,
        description: str | None = None,
        request_timeout: float | None = None,
    ) -> Template:
        """Makes a template from the disk of a sandbox, and waits until it can be used.

        Raises ``template_failed`` with the reason.
        """
        body = {"name": name, "description": description}
        path = {"sandbox_id": sandbox_id}
        made = self._api.call(
            "createTemplateFromSandbox", path=path, body=body, request_timeout=request_timeout
        )
        pause = _FIRST_PAUSE
        while True:
            template = self.get(made["template_id"], request_timeout=request_timeout)
            if template["status"] == "available":
                return template
            if template["status"] == "failed":
                reason = template["build_error_message"] or "failed"
                raise SandboxError("template_failed", f"The template {name}: {reason}")
            time.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)

    def delete(self, template_id: str, *, request_timeout: float | None = None) -> None:
        self._api.call("deleteTemplate", path={"template_id": template_id}, request_timeout=request_timeout)


class ApiKeys:
    """The API keys of the caller."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    def list(
        self, *, status: Literal["active", "inactive"] | None = None, request_timeout: float | None = None
    ) -> Iterator[ApiKey]:
        """The keys, newest first, without their secrets."""
        for key in self._api.all_pages("listApiKeys", "api_keys", {"status": status}, request_timeout):
            yield key

    def create(
        self, name: str, *, description: str | None = None, request_timeout: float | None = None
    ) -> CreatedApiKey:
        """Makes a key. Only this reply has the secret, in ``api_key``. ``name`` is unique among the keys of the user."""
        body = {"name": name, "description": description}
        made: CreatedApiKey = self._api.call("createApiKey", body=body, request_timeout=request_timeout)
        return made

    def set_active(self, key_id: str, is_active: bool, *, request_timeout: float | None = None) -> None:
        """Disables a key, or enables it again. A disabled key is refused at once."""
        path, body = {"key_id": key_id}, {"is_active": is_active}
        self._api.call("setApiKeyStatus", path=path, body=body, request_timeout=request_timeout)

    def delete(self, key_id: str, *, request_timeout: float | None = None) -> None:
        self._api.call("deleteApiKey", path={"key_id": key_id}, request_timeout=request_timeout)


class UsageReports:
    """What the account uses, and how much it may use."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    def summary(
        self,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        project_id: str | None = None,
        group_by: str | None = None,
        request_timeout: float | None = None,
    ) -> GetUsageSummaryData:
        """The use of a period, with its cost. The default is the last 30 days.

        ``group_by`` is ``project_id``, ``user_id``, or ``metadata.<key>`` of the sandboxes: adds ``groups``.
        """
        query = {
            "start": None if start is None else int(start.timestamp() * 1000),
            "end": None if end is None else int(end.timestamp() * 1000),
            "project_id": project_id,
            "group_by": group_by,
        }
        given = {key: value for key, value in query.items() if value is not None}
        found: GetUsageSummaryData = self._api.call(
            "getUsageSummary", query=given, request_timeout=request_timeout
        )
        return found

    def quota(self, *, request_timeout: float | None = None) -> GetQuotaData:
        """The quotas of the caller and of the account, with the use of this month."""
        found: GetQuotaData = self._api.call("getQuota", request_timeout=request_timeout)
        return found


class Webhooks:
    """Endpoints to which the platform sends events."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    @staticmethod
    def verify(body: str | bytes, headers: Mapping[str, str], key: str, *, tolerance: float = 300.0) -> WebhookEvent:
        """Checks the signature of a delivery (Standard Webhooks) and returns its event.

        ``body`` is the body of the request as it came; a JSON text that was made again has other bytes. ``key`` is the
        secret of the endpoint (``whsec_...``), or its ``public_key`` (``whpk_...``), which needs the package
        ``cryptography``. ``tolerance`` is the largest difference in seconds between the time of the delivery and now.
        Raises ``invalid_signature``.
        """
        return verify(body, headers, key, tolerance)

    def list(self, *, request_timeout: float | None = None) -> Iterator[Webhook]:
        """The endpoints, newest first."""
        for webhook in self._api.all_pages("listWebhooks", "webhooks", {}, request_timeout):
            yield webhook

    def create(
        self,
        url: str,
        event_types: Sequence[str],
        *,
        secret: str | None = None,
        description: str | None = None,
        more: Mapping[str, Any] | None = None,
        request_timeout: float | None = None,
    ) -> Webhook:
        """``event_types`` are types, families such as ``sandbox.*``, or ``*``.

        With a ``secret`` (``whsec_...``) deliveries have a ``v1`` signature, too. ``more`` has every other field of
        ``POST /v1/webhooks``.
        """
        body = {"url": url, "event_types": [*event_types], "secret": secret, "description": description}
        made: Webhook = self._api.call(
            "createWebhook", body={**body, **(more or {})}, request_timeout=request_timeout
        )
        return made

    def test(self, endpoint_id: str, *, request_timeout: float | None = None) -> WebhookDelivery:
        """Sends a test event. The reply is the delivery, which may still be in progress."""
        path = {"endpoint_id": endpoint_id}
        sent: WebhookDelivery = self._api.call("sendTestEvent", path=path, request_timeout=request_timeout)
        return sent

    def delete(self, endpoint_id: str, *, request_timeout: float | None = None) -> None:
        self._api.call("deleteWebhook", path={"endpoint_id": endpoint_id}, request_timeout=request_timeout)
