# Generated (see clients/README.md). Do not edit.
from __future__ import annotations

from typing import Any, Literal, TypedDict, Union

from typing_extensions import NotRequired

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


class ConnectSandboxBody(TypedDict):
    # Counts anew from now, and may be shorter; kept when left out
    timeout: NotRequired[Union[int, None]]


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


class DeleteSandboxData(TypedDict):
    sandbox_id: str
    status: Literal["deletion_in_progress"]
    note: str


class DeleteSandboxQuery(TypedDict):
    # Accepted for compatibility; has no effect
    force: NotRequired[Literal["0", "1", "true", "false", "yes", "no"]]


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


RemoveSandboxPortData = None

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


# Method and path of each operation.
OPERATIONS: dict[str, tuple[str, str]] = {
    "createSandbox": ("POST", "/v1/sandboxes"),
    "listSandboxes": ("GET", "/v1/sandboxes"),
    "getSandbox": ("GET", "/v1/sandboxes/{sandbox_id}"),
    "connectSandbox": ("POST", "/v1/sandboxes/{sandbox_id}/connect"),
    "pauseSandbox": ("POST", "/v1/sandboxes/{sandbox_id}/pause"),
    "resumeSandbox": ("POST", "/v1/sandboxes/{sandbox_id}/resume"),
    "setSandboxTimeout": ("POST", "/v1/sandboxes/{sandbox_id}/timeout"),
    "terminateSandbox": ("POST", "/v1/sandboxes/{sandbox_id}/terminate"),
    "deleteSandbox": ("DELETE", "/v1/sandboxes/{sandbox_id}"),
    "listSandboxPorts": ("GET", "/v1/sandboxes/{sandbox_id}/ports"),
    "addSandboxPort": ("POST", "/v1/sandboxes/{sandbox_id}/ports"),
    "removeSandboxPort": ("DELETE", "/v1/sandboxes/{sandbox_id}/ports/{port}"),
}
