# Generated (see clients/README.md). Do not edit.
from __future__ import annotations

from typing import Any, Literal, TypedDict, Union

from typing_extensions import NotRequired

class AccessToken(TypedDict):
    # For `Authorization: Bearer …`, on every route that accepts an API key
    access_token: str
    expires_at: str


class AddSandboxPortBody(TypedDict):
    port: int
    name: str
    protocol: NotRequired[Union[Literal["TCP", "UDP", "WEBRTC"], None]]
    # The port on which the server in the sandbox listens; default: `port`
    service_port: NotRequired[Union[int, None]]
    # Require the access token
    is_protected: NotRequired[Union[bool, None]]


class AddSandboxPortData(TypedDict):
    port: "Port"


class ApiKey(TypedDict):
    key_id: str
    name: str
    description: str
    # The secret's first characters
    prefix: str
    is_active: bool
    # To the minute
    last_used_at: Union[str, None]
    created_at: str
    updated_at: str
    owner: "Person"


class CancelImportJobData(TypedDict):
    job_id: str
    status: Literal["cancelled"]
    message: str


class ConnectSandboxBody(TypedDict):
    # Counts anew from now, and may be shorter; kept when left out
    timeout: NotRequired[Union[int, None]]


class CreateApiKeyBody(TypedDict):
    # Unique among your keys
    name: str
    description: NotRequired[Union[str, None]]


class CreateSandboxBodyObjectStorage(TypedDict):
    # `s3://<bucket>/<path>` or `oss://<bucket>/<path>`
    uri: str
    # A region or an endpoint is required
    region: NotRequired[Union[str, None]]
    # URL of an S3-compatible server
    endpoint: NotRequired[Union[str, None]]
    # Absolute path in the sandbox; a missing folder is created
    mount_point: str
    access_key: str
    secret_key: str
    # Makes the mount `short_lived`
    session_token: NotRequired[Union[str, None]]


class CreateSandboxBodyObjectStorage2(TypedDict):
    # `s3://<bucket>/<path>` or `oss://<bucket>/<path>`
    uri: str
    # A region or an endpoint is required
    region: NotRequired[Union[str, None]]
    # URL of an S3-compatible server
    endpoint: NotRequired[Union[str, None]]
    # Absolute path in the sandbox; a missing folder is created
    mount_point: str
    access_key: str
    secret_key: str
    # Makes the mount `short_lived`
    session_token: NotRequired[Union[str, None]]


class CreateSandboxBodyCustomPorts(TypedDict):
    port: int
    name: str
    protocol: NotRequired[Union[Literal["TCP", "UDP", "WEBRTC"], None]]
    # The port on which the server in the sandbox listens; default: `port`
    service_port: NotRequired[Union[int, None]]
    # Require the access token
    is_protected: NotRequired[Union[bool, None]]


class CreateSandboxBodyLocality(TypedDict):
    # Use the caller's region if `region` is left out
    auto_detect: NotRequired[Union[bool, None]]
    # An id of `GET /v1/platform-regions`
    region: NotRequired[Union[str, None]]
    # Use no other region; ignored with `auto_detect`. By default, the nearest region with capacity is used
    force: NotRequired[Union[bool, None]]


class CreateSandboxBody(TypedDict):
    # Generated when empty
    name: NotRequired[Union[str, None]]
    description: NotRequired[Union[str, None]]
    # An id, the name of a built-in, public or own template, or `<user name>/<name>`
    template: NotRequired[Union[str, None]]
    # The user's default project when left out
    project_id: NotRequired[Union[str, None]]
    # The template's default when left out
    cpu_count: NotRequired[Union[int, None]]
    # The template's default when left out
    memory_mb: NotRequired[Union[int, None]]
    # Half of the plan's maximum when left out
    storage_gb: NotRequired[Union[int, None]]
    timeout: NotRequired[Union[int, None]]
    env_vars: NotRequired[Union[dict[str, str], None]]
    metadata: NotRequired[Union[dict[str, Union[str, float, bool]], None]]
    # The agent requires the access token
    secure: NotRequired[Union[bool, None]]
    allow_internet_access: NotRequired[Union[bool, None]]
    # One bucket mount, or a list of them
    object_storage: NotRequired[Union["CreateSandboxBodyObjectStorage", list["CreateSandboxBodyObjectStorage2"], None]]
    # The image's own s3fs runs in the sandbox. Not with a session token; ignored for templates that are not custom
    object_storage_direct_mount: NotRequired[Union[bool, None]]
    # Only with a direct mount; empty: the s3fs in PATH
    s3fs_executable_path: NotRequired[Union[str, None]]
    custom_ports: NotRequired[Union[list["CreateSandboxBodyCustomPorts"], None]]
    locality: NotRequired[Union["CreateSandboxBodyLocality", None]]
    # Pause the sandbox at its timeout, instead of terminating it
    auto_pause: NotRequired[Union[bool, None]]
    # Reply immediately, instead of when the sandbox runs or has failed
    is_async: NotRequired[Union[bool, None]]


class CreateTemplateFromSandboxBody(TypedDict):
    name: str
    description: NotRequired[Union[str, None]]
    # Only operators may set `public`
    visibility: NotRequired[Union[Literal["private", "account_shared", "public"], None]]
    # Default: the sandbox's value
    cpu_count: NotRequired[Union[int, None]]
    # Default: the sandbox's value
    memory_mb: NotRequired[Union[int, None]]
    # A JSON array of ports, as a string; added to those of the sandbox's template
    ports: NotRequired[Union[str, None]]
    # Default: the value of the sandbox's template
    custom_command: NotRequired[Union[str, None]]
    # Default: the value of the sandbox's template
    ready_command: NotRequired[Union[str, None]]


class CreateTemplateFromSandboxData(TypedDict):
    template_id: str
    name: str
    description: str
    default_cpu_count: int
    default_memory_mb: int
    visibility: Literal["private", "account_shared", "public"]
    status: Literal["pending", "building", "pushing", "available", "failed"]
    registry_project: str
    registry_repository: str
    registry_tag: str
    # The template that the sandbox is made from
    base_template_id: str
    ports: list["Port"]
    custom_command: Union[str, None]
    ready_command: Union[str, None]
    created_at: str
    message: str


class CreateWebhookBody(TypedDict):
    # `http://` or `https://`
    url: str
    # Types, families such as `sandbox.*`, or `*`; see `GET /v1/webhooks/event-types`
    event_types: list[str]
    description: NotRequired[Union[str, None]]
    # `user`: events of your own objects; `account`: all of the account, for root users
    scope: NotRequired[Union[Literal["user", "account"], None]]
    # For one whole attempt, including the reply
    timeout_seconds: NotRequired[Union[int, None]]
    max_retries: NotRequired[Union[int, None]]
    secret: NotRequired[Union[str, None]]


class CreatedApiKey(TypedDict):
    key_id: str
    name: str
    description: str
    # The secret, shown only once; a reply to a repeated Idempotency-Key does not have it
    api_key: NotRequired[str]
    # The same key in the spelling that SDKs of E2B accept; a secret like `api_key`
    e2b_api_key: NotRequired[str]
    prefix: str
    is_active: bool
    created_at: str
    max_active_api_keys: int
    owner: "Person"


class CreatedSandboxNetworkProxyProxyConfigs(TypedDict):
    host: str
    port: int
    username: str
    password: str


class CreatedSandboxNetworkProxy(TypedDict):
    proxy_url: str
    proxy_configs: "CreatedSandboxNetworkProxyProxyConfigs"


class CreatedSandbox(TypedDict):
    sandbox_id: str
    name: str
    description: str
    template_id: str
    # The name of the template when the sandbox was made
    template_name: str
    owner_user_id: str
    project_id: str
    cpu_count: int
    memory_mb: int
    storage_gb: int
    # Seconds
    timeout: int
    auto_pause: bool
    secure: bool
    allow_internet_access: bool
    metadata: dict[str, str]
    env_vars: dict[str, str]
    object_storage: Union[list["Mount"], None]
    object_storage_single: Union["Mount", None]
    object_storage_direct_mount: bool
    object_storage_s3fs_path: str
    ports: list["Port"]
    template_ports: list["Port"]
    custom_ports: list["Port"]
    template_custom_command: Union[str, None]
    template_ready_command: Union[str, None]
    status: Literal["created", "starting", "running", "pausing", "paused", "resuming", "terminating", "terminated", "failed"]
    substatus: Union[Literal["allocating", "deploying", "initializing", "waiting_ready", "cleaning_resources", "cleaning_data"], None]
    # The reason of this status
    reason: Union[Literal["user_requested", "timeout", "auto_pause", "persistence_expired", "image_pull_failed", "image_refused", "not_ready", "start_failed", "no_capacity", "host_lost", "host_restarted", "host_disk_full", "disk_lost", "host_disk_pressure", "host_draining", "runtime_exited", "pause_failed", "resume_failed", "restarted", "restart_failed", "budget_restricted", "quota_used_up", "object_storage_mount_failed", "object_storage_credentials_required", "ended_by_operator"], None]
    created_at: str
    updated_at: str
    started_at: Union[str, None]
    timeout_at: Union[str, None]
    # Seconds it has run, without pauses
    uptime: int
    sandbox_domain: str
    # The agent's address and port inside the platform's network
    sandbox_domain_internal: Union[str, None]
    web_terminal_available: bool
    web_files_available: bool
    envd_access_token: str
    persistence_days: Union[int, None]
    persistence_expires_at: Union[str, None]
    persistence_days_remaining: Union[int, None]
    network_proxy: NotRequired["CreatedSandboxNetworkProxy"]
    # Details of a failure; kept after its data is removed
    failure: Union["SandboxFailure", None]


DeleteApiKeyData = None

class DeleteSandboxData(TypedDict):
    sandbox_id: str
    status: Literal["deletion_in_progress"]
    note: str


class DeleteSandboxQuery(TypedDict):
    # Accepted for compatibility; has no effect
    force: NotRequired[Literal["0", "1", "true", "false", "yes", "no"]]


DeleteTemplateData = None

DeleteWebhookData = None

class GetQuotaDataUsed(TypedDict):
    period_start: str
    period_end: str
    cpu_seconds: float
    ram_gb_seconds: float
    sandbox_storage_gb_seconds: float
    traffic_gb: float


class GetQuotaDataAccountUsed(TypedDict):
    period_start: str
    period_end: str
    cpu_seconds: float
    ram_gb_seconds: float
    sandbox_storage_gb_seconds: float
    traffic_gb: float


class GetQuotaData(TypedDict):
    quotas: Union["QuotaAllocation", None]
    # Your usage of this month (UTC)
    used: "GetQuotaDataUsed"
    account_quotas: Union["QuotaAllocation", None]
    # Usage of all users; null if `account_quotas` is null
    account_used: Union["GetQuotaDataAccountUsed", None]


class GetSandboxMetricsData(TypedDict):
    sandbox_id: str
    timestamp: str
    status: Literal["created", "starting", "running", "pausing", "paused", "resuming", "terminating", "terminated", "failed"]
    uptime_seconds: int
    # Averages of each step, oldest first; steps in which the sandbox did not run are left out
    metrics: list["SandboxMetrics"]
    # The reason why there are no items
    error: NotRequired[str]


class GetSandboxMetricsQuery(TypedDict):
    # ISO 8601, Unix seconds or milliseconds; default 5 minutes ago; swapped bounds are put right
    start: NotRequired[str]
    # ISO 8601, Unix seconds or milliseconds; default now; swapped bounds are put right
    end: NotRequired[str]
    # Seconds, or a duration such as 5s, 1m30s, 1h; default 5. A longer step is used if the reply would be too long
    step: NotRequired[str]


class GetUsageSummaryDataTimePeriod(TypedDict):
    start: str
    end: str


class GetUsageSummaryDataGroups(TypedDict):
    # Null: usage without this key
    value: Union[str, None]
    # Hours of one core, reserved while sandboxes run
    total_cpu_hours: float
    # GB × hours, reserved while sandboxes run
    total_memory_gb_hours: float
    # GB × hours of the disks of running and paused sandboxes
    total_storage_gb_hours: float
    # GB sent and received
    total_traffic_gb: float
    # GB × hours of the images of templates
    total_template_storage_gb_hours: float
    # Hours of one core that were used; not charged
    total_cpu_hours_used: float
    # GB × hours of memory that were used; not charged
    total_memory_gb_hours_used: float
    # At the prices of that time; a plan may include it
    total_cost: float


class GetUsageSummaryData(TypedDict):
    summary: "UsageSummary"
    time_period: "GetUsageSummaryDataTimePeriod"
    # Highest cost first; null without `group_by`
    groups: Union[list["GetUsageSummaryDataGroups"], None]
    # Larger than the number of `groups` if the reply does not have all of them
    total_groups: Union[int, None]


class GetUsageSummaryQuery(TypedDict):
    # ISO 8601, Unix seconds or milliseconds; default 30 days before the end
    start: NotRequired[str]
    # ISO 8601, Unix seconds or milliseconds; default now. At most 366 days after the start
    end: NotRequired[str]
    # Another account, for admins only; `all` means all accounts
    account_id: NotRequired[str]
    project_id: NotRequired[str]
    # `project_id`, `user_id`, or `metadata.<key>` of the sandboxes: adds `groups` to the reply
    group_by: NotRequired[str]


class ImportJob(TypedDict):
    job_id: str
    template_id: str
    status: Literal["pending", "running", "completed", "failed", "cancelled"]
    # Percent of the bytes of the image
    progress_percentage: int
    external_image_url: str
    registry_image_url: str
    created_at: str
    started_at: Union[str, None]
    completed_at: Union[str, None]
    updated_at: str
    last_log_message: Union[str, None]
    # Why the last attempt failed, also while the import is running and tries again. Null: none has failed, or the import is completed
    error_message: Union[str, None]
    # The last 64 KiB of output of the copying tool
    skopeo_logs: str
    retry_count: int
    max_retries: int


class ImportTemplateBody(TypedDict):
    name: str
    external_image_url: str
    description: NotRequired[Union[str, None]]
    external_registry_username: NotRequired[Union[str, None]]
    # Never returned; kept until the import has ended
    external_registry_password: NotRequired[Union[str, None]]
    default_cpu_count: NotRequired[Union[int, None]]
    default_memory_mb: NotRequired[Union[int, None]]
    # A command line, or JSON `{"Entrypoint": [], "Cmd": []}`
    custom_command: NotRequired[Union[str, None]]
    # Sandboxes start the ENTRYPOINT and CMD of the image if there is no `custom_command`. By default true
    start_image_command: NotRequired[Union[bool, None]]
    # JSON with `type` of `exec`, `httpGet` or `tcpSocket`
    ready_command: NotRequired[Union[str, None]]
    # A JSON array of ports, as a string
    ports: NotRequired[Union[str, None]]
    # Only account root users may set `account_shared`, and only operators `public`
    visibility: NotRequired[Union[Literal["private", "account_shared", "public"], None]]


class ImportTemplateDataForm(TypedDict):
    template_id: str
    name: str
    visibility: Literal["private", "account_shared", "public"]
    message: str
    job_id: str
    status: Literal["pending", "running", "completed", "failed", "cancelled"]
    external_image_url: str
    registry_image_url: str
    created_at: str


class ImportTemplateDataForm2(TypedDict):
    template_id: str
    name: str
    visibility: Literal["private", "account_shared", "public"]
    message: str


ImportTemplateData = Union["ImportTemplateDataForm", "ImportTemplateDataForm2"]

class ListApiKeysData(TypedDict):
    api_keys: list["ApiKey"]
    pagination: "Pagination"
    # The limit of the user whose keys are listed; without `user_id`, of the caller
    max_active_api_keys: int


class ListApiKeysQuery(TypedDict):
    # `next_cursor` of the page before, with the same filters and order; takes precedence over page and offset
    cursor: NotRequired[str]
    # Default 1
    page: NotRequired[int]
    # Items on a page, default 50; more than 100 are cut to that
    limit: NotRequired[int]
    # Alias of limit
    page_size: NotRequired[int]
    # The number of items to skip; takes precedence over page
    offset: NotRequired[int]
    # Alias of offset
    skip: NotRequired[int]
    # Another account, for admins only; `all` means all accounts
    account_id: NotRequired[str]
    # Account root only
    user_id: NotRequired[str]
    status: NotRequired[Literal["active", "inactive"]]
    # Part of the name
    search: NotRequired[str]
    # Default created_at
    sort_by: NotRequired[Literal["created_at", "updated_at", "last_used_at", "name"]]
    # Default desc
    sort_order: NotRequired[Literal["asc", "desc"]]


class ListSandboxesData(TypedDict):
    sandboxes: list["SandboxSummary"]
    pagination: "Pagination"


class ListSandboxesQuery(TypedDict):
    # `next_cursor` of the page before, with the same filters and order; takes precedence over page and offset
    cursor: NotRequired[str]
    # Default 1
    page: NotRequired[int]
    # Items on a page, default 50; more than 100 are cut to that
    limit: NotRequired[int]
    # Alias of limit
    page_size: NotRequired[int]
    # The number of items to skip; takes precedence over page
    offset: NotRequired[int]
    # Alias of offset
    skip: NotRequired[int]
    # Another account, for admins only; `all` means all accounts
    account_id: NotRequired[str]
    # One status, or several, separated by commas
    status: NotRequired[str]
    project_id: NotRequired[str]
    # Account root only
    owner_user_id: NotRequired[str]
    # Part of a name, description or id
    search: NotRequired[str]
    # `{"key":"value"}`, or `key=value` pairs separated by commas or &; a sandbox must have all of them. Keys and values of pairs may be percent-encoded once more than the query
    metadata: NotRequired[str]
    # Default created_at
    sort_by: NotRequired[Literal["created_at", "updated_at", "started_at", "name", "status"]]
    # Default desc
    sort_order: NotRequired[Literal["asc", "desc"]]


class ListTemplatesData(TypedDict):
    templates: list["TemplateItem"]
    pagination: "Pagination"


class ListTemplatesQuery(TypedDict):
    # `next_cursor` of the page before, with the same filters and order; takes precedence over page and offset
    cursor: NotRequired[str]
    # Default 1
    page: NotRequired[int]
    # Items on a page, default 20; more than 100 are cut to that
    limit: NotRequired[int]
    # Alias of limit
    page_size: NotRequired[int]
    # The number of items to skip; takes precedence over page
    offset: NotRequired[int]
    # Alias of offset
    skip: NotRequired[int]
    # Another account, for admins only; `all` means all accounts
    account_id: NotRequired[str]
    status: NotRequired[Literal["pending", "building", "pushing", "available", "failed"]]
    visibility: NotRequired[Literal["private", "account_shared", "public"]]
    # Exact
    name: NotRequired[str]
    # true: only templates that sandboxes can be made from
    usable: NotRequired[Literal["0", "1", "true", "false", "yes", "no"]]


class ListWebhooksData(TypedDict):
    webhooks: list["Webhook"]
    pagination: "Pagination"


class ListWebhooksQuery(TypedDict):
    # `next_cursor` of the page before, with the same filters and order; takes precedence over page and offset
    cursor: NotRequired[str]
    # Default 1
    page: NotRequired[int]
    # Items on a page, default 50; more than 100 are cut to that
    limit: NotRequired[int]
    # Alias of limit
    page_size: NotRequired[int]
    # The number of items to skip; takes precedence over page
    offset: NotRequired[int]
    # Alias of offset
    skip: NotRequired[int]
    # Another account, for admins only; `all` means all accounts
    account_id: NotRequired[str]


class Mount(TypedDict):
    slot: int
    state: Literal["active", "disabled", "free"]
    uri: str
    mount_point: str
    region: NotRequired[str]
    endpoint: NotRequired[str]
    short_lived: NotRequired[bool]


class Pagination(TypedDict):
    page: int
    limit: int
    total: int
    # Of `total`; with `total_is_capped`, there are further pages
    total_pages: int
    offset: int
    # There are more items than `total`. Otherwise left out
    total_is_capped: NotRequired[Literal[True]]
    # `cursor` of the next page. Null: this is the last page
    next_cursor: Union[str, None]


class PauseSandboxBody(TypedDict):
    # Reply when the sandbox is `pausing`, instead of `paused`
    is_async: NotRequired[Union[bool, None]]


class Person(TypedDict):
    user_id: str
    username: str
    display_name: str
    email: str


class Port(TypedDict):
    port: int
    service_port: int
    protocol: Literal["TCP", "UDP", "WEBRTC"]
    name: str
    # The port requires the access token
    is_protected: bool
    # Only for UDP: the `<address>:<port>` of the host; null: not reachable now
    host_port: NotRequired[Union[str, None]]


class QuotaAllocation(TypedDict):
    allocation_id: str
    account_id: str
    # The limited user; null: the quota limits the account, all its users together
    user_id: Union[str, None]
    allocated_by_user_id: str
    # Seconds of one processor in a month; null: not limited by this quota
    cpu_seconds_monthly: Union[int, None]
    # GB of memory × seconds in a month; null: not limited by this quota
    ram_gb_seconds: Union[float, None]
    # GB of sandbox storage × seconds in a month; null: not limited by this quota
    sandbox_storage_gb_seconds: Union[float, None]
    # GB transferred in a month; null: not limited by this quota
    traffic_gb_seconds: Union[float, None]
    # GB of template images; null: not limited by this quota
    template_storage_gb: Union[float, None]
    # Concurrent sandboxes; null and 0: not limited by this quota
    concurrent_sandboxes: Union[int, None]
    # Only an active allocation applies
    status: Literal["active", "superseded", "revoked"]
    created_at: str
    updated_at: str


RemoveSandboxPortData = None

class RestartSandboxBodyObjectStorageMounts(TypedDict):
    # `s3://<bucket>/<path>` or `oss://<bucket>/<path>`
    uri: str
    # A region or an endpoint is required
    region: NotRequired[Union[str, None]]
    # URL of an S3-compatible server
    endpoint: NotRequired[Union[str, None]]
    # Absolute path in the sandbox; a missing folder is created
    mount_point: str
    access_key: str
    secret_key: str
    # Makes the mount `short_lived`
    session_token: NotRequired[Union[str, None]]
    delete: NotRequired[Union[Literal[False], None]]
    disable: NotRequired[Union[Literal[False], None]]


class RestartSandboxBodyObjectStorageMounts2(TypedDict):
    # Absolute path in the sandbox; a missing folder is created
    mount_point: str
    delete: Literal[True]


class RestartSandboxBodyObjectStorageMounts3(TypedDict):
    # Absolute path in the sandbox; a missing folder is created
    mount_point: str
    disable: Literal[True]


class RestartSandboxBodyObjectStorage(TypedDict):
    # Deletes all active mounts
    remove_all: NotRequired[Union[bool, None]]
    # Disables all active mounts; they keep their slots
    disable_all: NotRequired[Union[bool, None]]
    # Changes by mount point: a mount to add or replace, or `delete: true`, or `disable: true`
    mounts: NotRequired[Union[list[Union["RestartSandboxBodyObjectStorageMounts", "RestartSandboxBodyObjectStorageMounts2", "RestartSandboxBodyObjectStorageMounts3"]], None]]


class RestartSandboxBody(TypedDict):
    # Restart even if mounts fail or lack credentials
    best_effort_oss: NotRequired[Union[bool, None]]
    # As for a resume. All mounts end with the processes, so each needs credentials
    object_storage: NotRequired[Union["RestartSandboxBodyObjectStorage", None]]


class ResumeSandboxBodyObjectStorageMounts(TypedDict):
    # `s3://<bucket>/<path>` or `oss://<bucket>/<path>`
    uri: str
    # A region or an endpoint is required
    region: NotRequired[Union[str, None]]
    # URL of an S3-compatible server
    endpoint: NotRequired[Union[str, None]]
    # Absolute path in the sandbox; a missing folder is created
    mount_point: str
    access_key: str
    secret_key: str
    # Makes the mount `short_lived`
    session_token: NotRequired[Union[str, None]]
    delete: NotRequired[Union[Literal[False], None]]
    disable: NotRequired[Union[Literal[False], None]]


class ResumeSandboxBodyObjectStorageMounts2(TypedDict):
    # Absolute path in the sandbox; a missing folder is created
    mount_point: str
    delete: Literal[True]


class ResumeSandboxBodyObjectStorageMounts3(TypedDict):
    # Absolute path in the sandbox; a missing folder is created
    mount_point: str
    disable: Literal[True]


class ResumeSandboxBodyObjectStorage(TypedDict):
    # Deletes all active mounts
    remove_all: NotRequired[Union[bool, None]]
    # Disables all active mounts; they keep their slots
    disable_all: NotRequired[Union[bool, None]]
    # Changes by mount point: a mount to add or replace, or `delete: true`, or `disable: true`
    mounts: NotRequired[Union[list[Union["ResumeSandboxBodyObjectStorageMounts", "ResumeSandboxBodyObjectStorageMounts2", "ResumeSandboxBodyObjectStorageMounts3"]], None]]


class ResumeSandboxBody(TypedDict):
    # Reply when the sandbox is `resuming`, instead of `running`
    is_async: NotRequired[Union[bool, None]]
    # Resume even if mounts fail
    best_effort_oss: NotRequired[Union[bool, None]]
    # One of remove_all, disable_all and mounts; without it, the mounts do not change
    object_storage: NotRequired[Union["ResumeSandboxBodyObjectStorage", None]]


ResumeSandboxData = Union["Sandbox", "ResumingSandbox"]

class ResumingSandbox(TypedDict):
    sandbox_id: str
    status: Literal["resuming"]
    message: str


class SandboxNetworkProxyProxyConfigs(TypedDict):
    host: str
    port: int
    username: str
    password: str


class SandboxNetworkProxy(TypedDict):
    proxy_url: str
    proxy_configs: "SandboxNetworkProxyProxyConfigs"


class SandboxWebrtcTurn(TypedDict):
    turn_public_host: str
    turn_public_port: int
    # Its WEBRTC ports
    ports: list[int]


class Sandbox(TypedDict):
    sandbox_id: str
    name: str
    description: str
    status: Literal["created", "starting", "running", "pausing", "paused", "resuming", "terminating", "terminated", "failed"]
    substatus: Union[Literal["allocating", "deploying", "initializing", "waiting_ready", "cleaning_resources", "cleaning_data"], None]
    # The reason of this status
    reason: Union[Literal["user_requested", "timeout", "auto_pause", "persistence_expired", "image_pull_failed", "image_refused", "not_ready", "start_failed", "no_capacity", "host_lost", "host_restarted", "host_disk_full", "disk_lost", "host_disk_pressure", "host_draining", "runtime_exited", "pause_failed", "resume_failed", "restarted", "restart_failed", "budget_restricted", "quota_used_up", "object_storage_mount_failed", "object_storage_credentials_required", "ended_by_operator"], None]
    template_id: str
    # The name of the template when the sandbox was made
    template_name: str
    template_exists: bool
    project_id: str
    project_name: str
    owner: "Person"
    # The account's root user
    account_owner: Union["Person", None]
    owner_user_id: str
    region: str
    # Only its owner and the account root see it
    visibility: Literal["private"]
    # Legacy: the owner's account
    user_account_id: str
    # Legacy: the owner's display name
    userName: str
    # Legacy: the owner's e-mail
    userEmail: str
    cpu_count: int
    memory_mb: int
    storage_gb: int
    resources: "SandboxResources"
    # Seconds
    timeout: int
    auto_pause: bool
    secure: bool
    allow_internet_access: bool
    sandbox_domain: str
    # The agent's address and port inside the platform's network
    sandbox_domain_internal: Union[str, None]
    web_terminal_available: bool
    web_files_available: bool
    envd_access_token: str
    metadata: dict[str, str]
    env_vars: dict[str, str]
    object_storage: Union[list["Mount"], None]
    object_storage_single: Union["Mount", None]
    object_storage_direct_mount: bool
    object_storage_s3fs_path: str
    ports: list["Port"]
    template_ports: list["Port"]
    custom_ports: list["Port"]
    template_custom_command: Union[str, None]
    template_ready_command: Union[str, None]
    template_source: Literal["platform_family", "custom"]
    created_at: str
    updated_at: str
    started_at: Union[str, None]
    stopped_at: Union[str, None]
    ended_at: Union[str, None]
    timeout_at: Union[str, None]
    remaining_seconds: Union[int, None]
    paused_at: Union[str, None]
    pausing_at: Union[str, None]
    resumed_at: Union[str, None]
    # Seconds it has run, without pauses
    uptime: int
    total_paused_seconds: int
    total_running_seconds: int
    # Finished phases only
    actual_total_paused_seconds: int
    # Finished phases only
    actual_total_running_seconds: int
    lifecycle_outcome: Union[Literal["completed", "timed_out", "failed", "expired", "deleted"], None]
    # To the minute
    last_accessed_at: Union[str, None]
    persistence_days: Union[int, None]
    persistence_expires_at: Union[str, None]
    persistence_days_remaining: Union[int, None]
    network_proxy: NotRequired["SandboxNetworkProxy"]
    # The TURN server for peers of its WEBRTC ports; another route returns their credential
    webrtc_turn: NotRequired["SandboxWebrtcTurn"]
    # Details of a failure; kept after its data is removed
    failure: Union["SandboxFailure", None]


class SandboxFailure(TypedDict):
    message: str
    exit_code: Union[int, None]
    out_of_memory: bool
    # The last 8 KiB of the command's output
    command_output: str


class SandboxMetrics(TypedDict):
    # The beginning of the step
    timestamp: str
    cpu_count: int
    # Percent of all its cores
    cpu_used_pct: float
    # Bytes
    disk_total: int
    # Bytes
    disk_used: int
    # Bytes
    mem_total: int
    # Bytes, without file cache that the kernel can drop
    mem_used: int


class SandboxPorts(TypedDict):
    # All of them
    ports: list["Port"]
    template_ports: list["Port"]
    custom_ports: list["Port"]


class SandboxResources(TypedDict):
    # Cores
    cpu: int
    # MB
    memory: int
    # GB
    storage: int
    # Mbit/s to the internet, and the same rate from it; null: not limited
    bandwidth: Union[int, None]


class SandboxSummaryNetworkProxyProxyConfigs(TypedDict):
    host: str
    port: int
    username: str
    password: str


class SandboxSummaryNetworkProxy(TypedDict):
    proxy_url: str
    proxy_configs: "SandboxSummaryNetworkProxyProxyConfigs"


class SandboxSummary(TypedDict):
    sandbox_id: str
    name: str
    description: str
    template_id: str
    # The name of the template when the sandbox was made
    template_name: str
    template_exists: bool
    owner_user_id: str
    project_id: str
    project_name: str
    cpu_count: int
    memory_mb: int
    storage_gb: int
    # Seconds
    timeout: int
    timeout_at: Union[str, None]
    remaining_seconds: Union[int, None]
    auto_pause: bool
    secure: bool
    allow_internet_access: bool
    metadata: dict[str, str]
    env_vars: dict[str, str]
    object_storage: Union[list["Mount"], None]
    object_storage_single: Union["Mount", None]
    object_storage_direct_mount: bool
    object_storage_s3fs_path: str
    ports: list["Port"]
    template_ports: list["Port"]
    custom_ports: list["Port"]
    template_custom_command: Union[str, None]
    template_ready_command: Union[str, None]
    template_source: Literal["platform_family", "custom"]
    status: Literal["created", "starting", "running", "pausing", "paused", "resuming", "terminating", "terminated", "failed"]
    substatus: Union[Literal["allocating", "deploying", "initializing", "waiting_ready", "cleaning_resources", "cleaning_data"], None]
    # The reason of this status
    reason: Union[Literal["user_requested", "timeout", "auto_pause", "persistence_expired", "image_pull_failed", "image_refused", "not_ready", "start_failed", "no_capacity", "host_lost", "host_restarted", "host_disk_full", "disk_lost", "host_disk_pressure", "host_draining", "runtime_exited", "pause_failed", "resume_failed", "restarted", "restart_failed", "budget_restricted", "quota_used_up", "object_storage_mount_failed", "object_storage_credentials_required", "ended_by_operator"], None]
    started_at: Union[str, None]
    stopped_at: Union[str, None]
    created_at: str
    updated_at: str
    sandbox_domain: str
    # The agent's address and port inside the platform's network
    sandbox_domain_internal: Union[str, None]
    web_terminal_available: bool
    web_files_available: bool
    paused_at: Union[str, None]
    pausing_at: Union[str, None]
    resumed_at: Union[str, None]
    total_paused_seconds: int
    lifecycle_outcome: Union[Literal["completed", "timed_out", "failed", "expired", "deleted"], None]
    persistence_days: Union[int, None]
    persistence_expires_at: Union[str, None]
    persistence_days_remaining: Union[int, None]
    # Seconds it has run, without pauses
    uptime: int
    network_proxy: NotRequired["SandboxSummaryNetworkProxy"]
    owner: NotRequired["Person"]


class SetApiKeyStatusBody(TypedDict):
    is_active: bool


class SetApiKeyStatusData(TypedDict):
    message: str
    is_active: bool


class SetSandboxTimeoutBody(TypedDict):
    # Seconds
    timeout: int


class SetSandboxTimeoutData(TypedDict):
    timeout: int
    # Null while it does not run
    timeout_at: Union[str, None]
    # Seconds; null while it does not run
    remaining_time: Union[int, None]
    applies_to: Literal["current_phase", "next_phase"]
    note: str


class SignInBody(TypedDict):
    email: str
    password: str


class TemplateOwner(TypedDict):
    user_id: str
    username: str
    display_name: str


class Template(TypedDict):
    template_id: str
    name: str
    description: str
    default_cpu_count: int
    default_memory_mb: int
    visibility: Literal["private", "account_shared", "public"]
    template_source: Literal["platform_family", "custom"]
    custom_image_source: Union[Literal["external", "imported"], None]
    external_image_url: Union[str, None]
    external_registry_username: Union[str, None]
    status: Literal["pending", "building", "pushing", "available", "failed"]
    # Null for built-in templates
    owner_user_id: Union[str, None]
    owner_account_id: Union[str, None]
    registry_image_url: Union[str, None]
    registry_project: Union[str, None]
    registry_repository: Union[str, None]
    registry_tag: Union[str, None]
    image_size_bytes: Union[int, None]
    # JSON in text
    metadata: Union[str, None]
    ports: list["Port"]
    custom_command: Union[str, None]
    # Without `custom_command`, sandboxes start the ENTRYPOINT and CMD of the image
    start_image_command: bool
    ready_command: Union[str, None]
    build_started_at: Union[str, None]
    push_started_at: Union[str, None]
    push_completed_at: Union[str, None]
    build_error_message: Union[str, None]
    last_storage_sync_at: Union[str, None]
    created_at: str
    updated_at: str
    has_template_document: bool
    owner: NotRequired["TemplateOwner"]
    parent_template_id: Union[str, None]
    root_template_id: Union[str, None]
    # Markdown
    template_document: Union[str, None]


class TemplateItemOwner(TypedDict):
    user_id: str
    username: str
    display_name: str


class TemplateItem(TypedDict):
    template_id: str
    name: str
    description: str
    default_cpu_count: int
    default_memory_mb: int
    visibility: Literal["private", "account_shared", "public"]
    template_source: Literal["platform_family", "custom"]
    custom_image_source: Union[Literal["external", "imported"], None]
    external_image_url: Union[str, None]
    external_registry_username: Union[str, None]
    status: Literal["pending", "building", "pushing", "available", "failed"]
    # Null for built-in templates
    owner_user_id: Union[str, None]
    owner_account_id: Union[str, None]
    registry_image_url: Union[str, None]
    registry_project: Union[str, None]
    registry_repository: Union[str, None]
    registry_tag: Union[str, None]
    image_size_bytes: Union[int, None]
    # JSON in text
    metadata: Union[str, None]
    ports: list["Port"]
    custom_command: Union[str, None]
    # Without `custom_command`, sandboxes start the ENTRYPOINT and CMD of the image
    start_image_command: bool
    ready_command: Union[str, None]
    build_started_at: Union[str, None]
    push_started_at: Union[str, None]
    push_completed_at: Union[str, None]
    build_error_message: Union[str, None]
    last_storage_sync_at: Union[str, None]
    created_at: str
    updated_at: str
    has_template_document: bool
    owner: NotRequired["TemplateItemOwner"]


class TerminateSandboxDataForm(TypedDict):
    sandbox_id: str
    status: Literal["terminated"]
    note: str


class TerminateSandboxDataForm2(TypedDict):
    sandbox_id: str
    status: Literal["termination_in_progress"]
    note: str


TerminateSandboxData = Union["TerminateSandboxDataForm", "TerminateSandboxDataForm2"]

class TerminateSandboxQuery(TypedDict):
    # Accepted for compatibility; has no effect
    force: NotRequired[Literal["0", "1", "true", "false", "yes", "no"]]


class UsageSummary(TypedDict):
    # Sandboxes that ran or were paused at some time in the period
    total_sessions: int
    active_sessions: int
    completed_sessions: int
    failed_sessions: int
    # Hours of one core, reserved while sandboxes run
    total_cpu_hours: float
    # GB × hours, reserved while sandboxes run
    total_memory_gb_hours: float
    # GB × hours of the disks of running and paused sandboxes
    total_storage_gb_hours: float
    # GB sent and received
    total_traffic_gb: float
    # GB × hours of the images of templates
    total_template_storage_gb_hours: float
    # Hours of one core that were used; not charged
    total_cpu_hours_used: float
    # GB × hours of memory that were used; not charged
    total_memory_gb_hours_used: float
    # At the prices of that time; a plan may include it
    total_cost: float
    # Seconds; 0: there is no session
    avg_session_duration: float
    currency: str


class Webhook(TypedDict):
    endpoint_id: str
    url: str
    event_types: list[str]
    is_active: bool
    # Why the platform disabled it: it replied 410, or failed for five days
    disabled_reason: Union[Literal["gone", "failing"], None]
    description: str
    scope: Literal["user", "account"]
    # For one whole attempt, including the reply
    timeout_seconds: int
    max_retries: int
    # `whpk_…`: verifies the `v1a` signatures (ed25519)
    public_key: str
    # Requests carry a `v1` signature (HMAC) as well
    has_secret: bool
    # Deliveries that have ended or have an attempt; a repeated delivery counts again
    total_deliveries: int
    successful_deliveries: int
    # Deliveries that finally failed
    failed_deliveries: int
    last_delivery_at: Union[str, None]
    last_success_at: Union[str, None]
    last_failure_at: Union[str, None]
    created_at: str
    updated_at: str
    # The user whose events it receives; null: all users of the account
    user_id: Union[str, None]
    # For root users
    account_id: NotRequired[str]


class WebhookDeliveryAttempts(TypedDict):
    started_at: str
    duration_ms: int
    http_status_code: Union[int, None]
    # Why the attempt failed
    error: Union[str, None]
    # The beginning of the reply: 4 KiB, in lists 256 characters
    reply: Union[str, None]


class WebhookDelivery(TypedDict):
    delivery_id: str
    event_type: str
    # Sent as `webhook-id`, the same with every attempt
    event_id: str
    status: Literal["pending", "delivering", "retrying", "delivered", "failed"]
    http_status_code: Union[int, None]
    # The number of the latest ended attempt; 0: none has ended
    attempt_number: int
    max_attempts: int
    next_retry_at: Union[str, None]
    delivered_at: Union[str, None]
    failed_at: Union[str, None]
    # The error of the latest attempt
    error_message: Union[str, None]
    created_at: str
    # The latest 20, oldest first
    attempts: list["WebhookDeliveryAttempts"]


# Method and path of each operation.
OPERATIONS: dict[str, tuple[str, str]] = {
    "createSandbox": ("POST", "/v1/sandboxes"),
    "listSandboxes": ("GET", "/v1/sandboxes"),
    "getSandbox": ("GET", "/v1/sandboxes/{sandbox_id}"),
    "connectSandbox": ("POST", "/v1/sandboxes/{sandbox_id}/connect"),
    "pauseSandbox": ("POST", "/v1/sandboxes/{sandbox_id}/pause"),
    "resumeSandbox": ("POST", "/v1/sandboxes/{sandbox_id}/resume"),
    "setSandboxTimeout": ("POST", "/v1/sandboxes/{sandbox_id}/timeout"),
    "restartSandbox": ("POST", "/v1/sandboxes/{sandbox_id}/restart"),
    "terminateSandbox": ("POST", "/v1/sandboxes/{sandbox_id}/terminate"),
    "deleteSandbox": ("DELETE", "/v1/sandboxes/{sandbox_id}"),
    "getSandboxMetrics": ("GET", "/v1/sandboxes/{sandbox_id}/metrics"),
    "listSandboxPorts": ("GET", "/v1/sandboxes/{sandbox_id}/ports"),
    "addSandboxPort": ("POST", "/v1/sandboxes/{sandbox_id}/ports"),
    "removeSandboxPort": ("DELETE", "/v1/sandboxes/{sandbox_id}/ports/{port}"),
    "listTemplates": ("GET", "/v1/templates"),
    "getTemplate": ("GET", "/v1/templates/{template_id}"),
    "importTemplate": ("POST", "/v1/templates/import"),
    "createTemplateFromSandbox": ("POST", "/v1/sandboxes/{sandbox_id}/create-template"),
    "deleteTemplate": ("DELETE", "/v1/templates/{template_id}"),
    "getImportJob": ("GET", "/v1/import-jobs/{job_id}"),
    "cancelImportJob": ("DELETE", "/v1/import-jobs/{job_id}"),
    "listApiKeys": ("GET", "/v1/api-keys"),
    "createApiKey": ("POST", "/v1/api-keys"),
    "setApiKeyStatus": ("PUT", "/v1/api-keys/{key_id}/status"),
    "deleteApiKey": ("DELETE", "/v1/api-keys/{key_id}"),
    "signIn": ("POST", "/v1/auth/sign-in"),
    "getUsageSummary": ("GET", "/v1/usage/summary"),
    "getQuota": ("GET", "/v1/usage/quotas"),
    "listWebhooks": ("GET", "/v1/webhooks"),
    "createWebhook": ("POST", "/v1/webhooks"),
    "deleteWebhook": ("DELETE", "/v1/webhooks/{endpoint_id}"),
    "sendTestEvent": ("POST", "/v1/webhooks/{endpoint_id}/test"),
}
