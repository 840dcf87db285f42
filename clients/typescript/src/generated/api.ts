// Generated (see clients/README.md). Do not edit.

export interface AccessToken {
  /** For `Authorization: Bearer …`, on every route that accepts an API key */
  access_token: string;
  expires_at: string;
}

export interface AddSandboxPortBody {
  port: number;
  name: string;
  protocol?: 'TCP' | 'UDP' | 'WEBRTC' | null;
  /** The port on which the server in the sandbox listens; default: `port` */
  service_port?: number | null;
  /** Require the access token */
  is_protected?: boolean | null;
}

export interface AddSandboxPortData {
  port: Port;
}

export interface ApiKey {
  key_id: string;
  name: string;
  description: string;
  /** The secret's first characters */
  prefix: string;
  is_active: boolean;
  /** To the minute */
  last_used_at: string | null;
  created_at: string;
  updated_at: string;
  owner: Person;
}

export interface CancelImportJobData {
  job_id: string;
  status: 'cancelled';
  message: string;
}

export interface ConnectSandboxBody {
  /** Counts anew from now, and may be shorter; kept when left out */
  timeout?: number | null;
}

export interface CreateApiKeyBody {
  /** Unique among your keys */
  name: string;
  description?: string | null;
}

export interface CreateSandboxBody {
  /** Generated when empty */
  name?: string | null;
  description?: string | null;
  /** An id, the name of a built-in, public or own template, or `<user name>/<name>` */
  template?: string | null;
  /** The user's default project when left out */
  project_id?: string | null;
  /** The template's default when left out */
  cpu_count?: number | null;
  /** The template's default when left out */
  memory_mb?: number | null;
  /** Half of the plan's maximum when left out */
  storage_gb?: number | null;
  timeout?: number | null;
  env_vars?: Record<string, string> | null;
  metadata?: Record<string, string | number | boolean> | null;
  /** The agent requires the access token */
  secure?: boolean | null;
  allow_internet_access?: boolean | null;
  /** One bucket mount, or a list of them */
  object_storage?: {
    /** `s3://<bucket>/<path>` or `oss://<bucket>/<path>` */
    uri: string;
    /** A region or an endpoint is required */
    region?: string | null;
    /** URL of an S3-compatible server */
    endpoint?: string | null;
    /** Absolute path in the sandbox; a missing folder is created */
    mount_point: string;
    access_key: string;
    secret_key: string;
    /** Makes the mount `short_lived` */
    session_token?: string | null;
  } | {
    /** `s3://<bucket>/<path>` or `oss://<bucket>/<path>` */
    uri: string;
    /** A region or an endpoint is required */
    region?: string | null;
    /** URL of an S3-compatible server */
    endpoint?: string | null;
    /** Absolute path in the sandbox; a missing folder is created */
    mount_point: string;
    access_key: string;
    secret_key: string;
    /** Makes the mount `short_lived` */
    session_token?: string | null;
  }[] | null;
  /** The image's own s3fs runs in the sandbox. Not with a session token; ignored for templates that are not custom */
  object_storage_direct_mount?: boolean | null;
  /** Only with a direct mount; empty: the s3fs in PATH */
  s3fs_executable_path?: string | null;
  custom_ports?: {
    port: number;
    name: string;
    protocol?: 'TCP' | 'UDP' | 'WEBRTC' | null;
    /** The port on which the server in the sandbox listens; default: `port` */
    service_port?: number | null;
    /** Require the access token */
    is_protected?: boolean | null;
  }[] | null;
  locality?: {
    /** Use the caller's region if `region` is left out */
    auto_detect?: boolean | null;
    /** An id of `GET /v1/platform-regions` */
    region?: string | null;
    /** Use no other region; ignored with `auto_detect`. By default, the nearest region with capacity is used */
    force?: boolean | null;
  } | null;
  /** Pause the sandbox at its timeout, instead of terminating it */
  auto_pause?: boolean | null;
  /** Reply immediately, instead of when the sandbox runs or has failed */
  is_async?: boolean | null;
}

export interface CreateTemplateFromSandboxBody {
  name: string;
  description?: string | null;
  /** Only operators may set `public` */
  visibility?: 'private' | 'account_shared' | 'public' | null;
  /** Default: the sandbox's value */
  cpu_count?: number | null;
  /** Default: the sandbox's value */
  memory_mb?: number | null;
  /** A JSON array of ports, as a string; added to those of the sandbox's template */
  ports?: string | null;
  /** Default: the value of the sandbox's template */
  custom_command?: string | null;
  /** Default: the value of the sandbox's template */
  ready_command?: string | null;
}

export interface CreateTemplateFromSandboxData {
  template_id: string;
  name: string;
  description: string;
  default_cpu_count: number;
  default_memory_mb: number;
  visibility: 'private' | 'account_shared' | 'public';
  status: 'pending' | 'building' | 'pushing' | 'available' | 'failed';
  registry_project: string;
  registry_repository: string;
  registry_tag: string;
  /** The template that the sandbox is made from */
  base_template_id: string;
  ports: Port[];
  custom_command: string | null;
  ready_command: string | null;
  created_at: string;
  message: string;
}

export interface CreateWebhookBody {
  /** `http://` or `https://` */
  url: string;
  /** Types, families such as `sandbox.*`, or `*`; see `GET /v1/webhooks/event-types` */
  event_types: string[];
  description?: string | null;
  /** `user`: events of your own objects; `account`: all of the account, for root users */
  scope?: 'user' | 'account' | null;
  /** For one whole attempt, including the reply */
  timeout_seconds?: number | null;
  max_retries?: number | null;
  secret?: string | null;
}

export interface CreatedApiKey {
  key_id: string;
  name: string;
  description: string;
  /** The secret, shown only once; a reply to a repeated Idempotency-Key does not have it */
  api_key?: string;
  /** The same key in the spelling that SDKs of E2B accept; a secret like `api_key` */
  e2b_api_key?: string;
  prefix: string;
  is_active: boolean;
  created_at: string;
  max_active_api_keys: number;
  owner: Person;
}

export interface CreatedSandbox {
  sandbox_id: string;
  name: string;
  description: string;
  template_id: string;
  /** The name of the template when the sandbox was made */
  template_name: string;
  owner_user_id: string;
  project_id: string;
  cpu_count: number;
  memory_mb: number;
  storage_gb: number;
  /** Seconds */
  timeout: number;
  auto_pause: boolean;
  secure: boolean;
  allow_internet_access: boolean;
  metadata: Record<string, string>;
  env_vars: Record<string, string>;
  object_storage: Mount[] | null;
  object_storage_single: Mount | null;
  object_storage_direct_mount: boolean;
  object_storage_s3fs_path: string;
  ports: Port[];
  template_ports: Port[];
  custom_ports: Port[];
  template_custom_command: string | null;
  template_ready_command: string | null;
  status: 'created' | 'starting' | 'running' | 'pausing' | 'paused' | 'resuming' | 'terminating' | 'terminated' | 'failed';
  substatus: 'allocating' | 'deploying' | 'initializing' | 'waiting_ready' | 'cleaning_resources' | 'cleaning_data' | null;
  /** The reason of this status */
  reason: 'user_requested' | 'timeout' | 'auto_pause' | 'persistence_expired' | 'image_pull_failed' | 'image_refused' | 'not_ready' | 'start_failed' | 'no_capacity' | 'host_lost' | 'host_restarted' | 'host_disk_full' | 'disk_lost' | 'host_disk_pressure' | 'host_draining' | 'runtime_exited' | 'pause_failed' | 'resume_failed' | 'restarted' | 'restart_failed' | 'budget_restricted' | 'quota_used_up' | 'object_storage_mount_failed' | 'object_storage_credentials_required' | 'ended_by_operator' | null;
  created_at: string;
  updated_at: string;
  started_at: string | null;
  timeout_at: string | null;
  /** Seconds it has run, without pauses */
  uptime: number;
  sandbox_domain: string;
  /** The agent's address and port inside the platform's network */
  sandbox_domain_internal: string | null;
  web_terminal_available: boolean;
  web_files_available: boolean;
  envd_access_token: string;
  persistence_days: number | null;
  persistence_expires_at: string | null;
  persistence_days_remaining: number | null;
  network_proxy?: {
    proxy_url: string;
    proxy_configs: {
      host: string;
      port: number;
      username: string;
      password: string;
    };
  };
  /** Details of a failure; kept after its data is removed */
  failure: SandboxFailure | null;
}

export type DeleteApiKeyData = null;

export interface DeleteSandboxData {
  sandbox_id: string;
  status: 'deletion_in_progress';
  note: string;
}

export interface DeleteSandboxQuery {
  /** Accepted for compatibility; has no effect */
  force?: '0' | '1' | 'true' | 'false' | 'yes' | 'no';
}

export type DeleteTemplateData = null;

export type DeleteWebhookData = null;

export interface GetQuotaData {
  quotas: QuotaAllocation | null;
  /** Your usage of this month (UTC) */
  used: {
    period_start: string;
    period_end: string;
    cpu_seconds: number;
    ram_gb_seconds: number;
    sandbox_storage_gb_seconds: number;
    traffic_gb: number;
  };
  account_quotas: QuotaAllocation | null;
  /** Usage of all users; null if `account_quotas` is null */
  account_used: {
    period_start: string;
    period_end: string;
    cpu_seconds: number;
    ram_gb_seconds: number;
    sandbox_storage_gb_seconds: number;
    traffic_gb: number;
  } | null;
}

export interface GetSandboxMetricsData {
  sandbox_id: string;
  timestamp: string;
  status: 'created' | 'starting' | 'running' | 'pausing' | 'paused' | 'resuming' | 'terminating' | 'terminated' | 'failed';
  uptime_seconds: number;
  /** Averages of each step, oldest first; steps in which the sandbox did not run are left out */
  metrics: SandboxMetrics[];
  /** The reason why there are no items */
  error?: string;
}

export interface GetSandboxMetricsQuery {
  /** ISO 8601, Unix seconds or milliseconds; default 5 minutes ago; swapped bounds are put right */
  start?: string;
  /** ISO 8601, Unix seconds or milliseconds; default now; swapped bounds are put right */
  end?: string;
  /** Seconds, or a duration such as 5s, 1m30s, 1h; default 5. A longer step is used if the reply would be too long */
  step?: string;
}

export interface GetUsageSummaryData {
  summary: UsageSummary;
  time_period: {
    start: string;
    end: string;
  };
  /** Highest cost first; null without `group_by` */
  groups: {
    /** Null: usage without this key */
    value: string | null;
    /** Hours of one core, reserved while sandboxes run */
    total_cpu_hours: number;
    /** GB × hours, reserved while sandboxes run */
    total_memory_gb_hours: number;
    /** GB × hours of the disks of running and paused sandboxes */
    total_storage_gb_hours: number;
    /** GB sent and received */
    total_traffic_gb: number;
    /** GB × hours of the images of templates */
    total_template_storage_gb_hours: number;
    /** Hours of one core that were used; not charged */
    total_cpu_hours_used: number;
    /** GB × hours of memory that were used; not charged */
    total_memory_gb_hours_used: number;
    /** At the prices of that time; a plan may include it */
    total_cost: number;
  }[] | null;
  /** Larger than the number of `groups` if the reply does not have all of them */
  total_groups: number | null;
}

export interface GetUsageSummaryQuery {
  /** ISO 8601, Unix seconds or milliseconds; default 30 days before the end */
  start?: string;
  /** ISO 8601, Unix seconds or milliseconds; default now. At most 366 days after the start */
  end?: string;
  /** Another account, for admins only; `all` means all accounts */
  account_id?: string;
  project_id?: string;
  /** `project_id`, `user_id`, or `metadata.<key>` of the sandboxes: adds `groups` to the reply */
  group_by?: string;
}

export interface ImportJob {
  job_id: string;
  template_id: string;
  status: 'pending' | 'running' | 'completed' | 'failed' | 'cancelled';
  /** Percent of the bytes of the image */
  progress_percentage: number;
  external_image_url: string;
  registry_image_url: string;
  created_at: string;
  started_at: string | null;
  completed_at: string | null;
  updated_at: string;
  last_log_message: string | null;
  /** Why the last attempt failed, also while the import is running and tries again. Null: none has failed, or the import is completed */
  error_message: string | null;
  /** The last 64 KiB of output of the copying tool */
  skopeo_logs: string;
  retry_count: number;
  max_retries: number;
}

export interface ImportTemplateBody {
  name: string;
  external_image_url: string;
  description?: string | null;
  external_registry_username?: string | null;
  /** Never returned; kept until the import has ended */
  external_registry_password?: string | null;
  default_cpu_count?: number | null;
  default_memory_mb?: number | null;
  /** A command line, or JSON `{"Entrypoint": [], "Cmd": []}` */
  custom_command?: string | null;
  /** Sandboxes start the ENTRYPOINT and CMD of the image if there is no `custom_command`. By default true */
  start_image_command?: boolean | null;
  /** JSON with `type` of `exec`, `httpGet` or `tcpSocket` */
  ready_command?: string | null;
  /** A JSON array of ports, as a string */
  ports?: string | null;
  /** Only account root users may set `account_shared`, and only operators `public` */
  visibility?: 'private' | 'account_shared' | 'public' | null;
}

export type ImportTemplateData = {
  template_id: string;
  name: string;
  visibility: 'private' | 'account_shared' | 'public';
  message: string;
  job_id: string;
  status: 'pending' | 'running' | 'completed' | 'failed' | 'cancelled';
  external_image_url: string;
  registry_image_url: string;
  created_at: string;
} | {
  template_id: string;
  name: string;
  visibility: 'private' | 'account_shared' | 'public';
  message: string;
};

export interface ListApiKeysData {
  api_keys: ApiKey[];
  pagination: Pagination;
  /** The limit of the user whose keys are listed; without `user_id`, of the caller */
  max_active_api_keys: number;
}

export interface ListApiKeysQuery {
  /** `next_cursor` of the page before, with the same filters and order; takes precedence over page and offset */
  cursor?: string;
  /** Default 1 */
  page?: number;
  /** Items on a page, default 50; more than 100 are cut to that */
  limit?: number;
  /** Alias of limit */
  page_size?: number;
  /** The number of items to skip; takes precedence over page */
  offset?: number;
  /** Alias of offset */
  skip?: number;
  /** Another account, for admins only; `all` means all accounts */
  account_id?: string;
  /** Account root only */
  user_id?: string;
  status?: 'active' | 'inactive';
  /** Part of the name */
  search?: string;
  /** Default created_at */
  sort_by?: 'created_at' | 'updated_at' | 'last_used_at' | 'name';
  /** Default desc */
  sort_order?: 'asc' | 'desc';
}

export interface ListSandboxesData {
  sandboxes: SandboxSummary[];
  pagination: Pagination;
}

export interface ListSandboxesQuery {
  /** `next_cursor` of the page before, with the same filters and order; takes precedence over page and offset */
  cursor?: string;
  /** Default 1 */
  page?: number;
  /** Items on a page, default 50; more than 100 are cut to that */
  limit?: number;
  /** Alias of limit */
  page_size?: number;
  /** The number of items to skip; takes precedence over page */
  offset?: number;
  /** Alias of offset */
  skip?: number;
  /** Another account, for admins only; `all` means all accounts */
  account_id?: string;
  /** One status, or several, separated by commas */
  status?: string;
  project_id?: string;
  /** Account root only */
  owner_user_id?: string;
  /** Part of a name, description or id */
  search?: string;
  /** `{"key":"value"}`, or `key=value` pairs separated by commas or &; a sandbox must have all of them. Keys and values of pairs may be percent-encoded once more than the query */
  metadata?: string;
  /** Default created_at */
  sort_by?: 'created_at' | 'updated_at' | 'started_at' | 'name' | 'status';
  /** Default desc */
  sort_order?: 'asc' | 'desc';
}

export interface ListTemplatesData {
  templates: TemplateItem[];
  pagination: Pagination;
}

export interface ListTemplatesQuery {
  /** `next_cursor` of the page before, with the same filters and order; takes precedence over page and offset */
  cursor?: string;
  /** Default 1 */
  page?: number;
  /** Items on a page, default 20; more than 100 are cut to that */
  limit?: number;
  /** Alias of limit */
  page_size?: number;
  /** The number of items to skip; takes precedence over page */
  offset?: number;
  /** Alias of offset */
  skip?: number;
  /** Another account, for admins only; `all` means all accounts */
  account_id?: string;
  status?: 'pending' | 'building' | 'pushing' | 'available' | 'failed';
  visibility?: 'private' | 'account_shared' | 'public';
  /** Exact */
  name?: string;
  /** true: only templates that sandboxes can be made from */
  usable?: '0' | '1' | 'true' | 'false' | 'yes' | 'no';
}

export interface ListWebhooksData {
  webhooks: Webhook[];
  pagination: Pagination;
}

export interface ListWebhooksQuery {
  /** `next_cursor` of the page before, with the same filters and order; takes precedence over page and offset */
  cursor?: string;
  /** Default 1 */
  page?: number;
  /** Items on a page, default 50; more than 100 are cut to that */
  limit?: number;
  /** Alias of limit */
  page_size?: number;
  /** The number of items to skip; takes precedence over page */
  offset?: number;
  /** Alias of offset */
  skip?: number;
  /** Another account, for admins only; `all` means all accounts */
  account_id?: string;
}

export interface Mount {
  slot: number;
  state: 'active' | 'disabled' | 'free';
  uri: string;
  mount_point: string;
  region?: string;
  endpoint?: string;
  short_lived?: boolean;
}

export interface Pagination {
  page: number;
  limit: number;
  total: number;
  /** Of `total`; with `total_is_capped`, there are further pages */
  total_pages: number;
  offset: number;
  /** There are more items than `total`. Otherwise left out */
  total_is_capped?: true;
  /** `cursor` of the next page. Null: this is the last page */
  next_cursor: string | null;
}

export interface PauseSandboxBody {
  /** Reply when the sandbox is `pausing`, instead of `paused` */
  is_async?: boolean | null;
}

export interface Person {
  user_id: string;
  username: string;
  display_name: string;
  email: string;
}

export interface Port {
  port: number;
  service_port: number;
  protocol: 'TCP' | 'UDP' | 'WEBRTC';
  name: string;
  /** The port requires the access token */
  is_protected: boolean;
  /** Only for UDP: the `<address>:<port>` of the host; null: not reachable now */
  host_port?: string | null;
}

export interface QuotaAllocation {
  allocation_id: string;
  account_id: string;
  /** The limited user; null: the quota limits the account, all its users together */
  user_id: string | null;
  allocated_by_user_id: string;
  /** Seconds of one processor in a month; null: not limited by this quota */
  cpu_seconds_monthly: number | null;
  /** GB of memory × seconds in a month; null: not limited by this quota */
  ram_gb_seconds: number | null;
  /** GB of sandbox storage × seconds in a month; null: not limited by this quota */
  sandbox_storage_gb_seconds: number | null;
  /** GB transferred in a month; null: not limited by this quota */
  traffic_gb_seconds: number | null;
  /** GB of template images; null: not limited by this quota */
  template_storage_gb: number | null;
  /** Concurrent sandboxes; null and 0: not limited by this quota */
  concurrent_sandboxes: number | null;
  /** Only an active allocation applies */
  status: 'active' | 'superseded' | 'revoked';
  created_at: string;
  updated_at: string;
}

export type RemoveSandboxPortData = null;

export interface RestartSandboxBody {
  /** Restart even if mounts fail or lack credentials */
  best_effort_oss?: boolean | null;
  /** As for a resume. All mounts end with the processes, so each needs credentials */
  object_storage?: {
    /** Deletes all active mounts */
    remove_all?: boolean | null;
    /** Disables all active mounts; they keep their slots */
    disable_all?: boolean | null;
    /** Changes by mount point: a mount to add or replace, or `delete: true`, or `disable: true` */
    mounts?: ({
      /** `s3://<bucket>/<path>` or `oss://<bucket>/<path>` */
      uri: string;
      /** A region or an endpoint is required */
      region?: string | null;
      /** URL of an S3-compatible server */
      endpoint?: string | null;
      /** Absolute path in the sandbox; a missing folder is created */
      mount_point: string;
      access_key: string;
      secret_key: string;
      /** Makes the mount `short_lived` */
      session_token?: string | null;
      delete?: false | null;
      disable?: false | null;
    } | {
      /** Absolute path in the sandbox; a missing folder is created */
      mount_point: string;
      delete: true;
    } | {
      /** Absolute path in the sandbox; a missing folder is created */
      mount_point: string;
      disable: true;
    })[] | null;
  } | null;
}

export interface ResumeSandboxBody {
  /** Reply when the sandbox is `resuming`, instead of `running` */
  is_async?: boolean | null;
  /** Resume even if mounts fail */
  best_effort_oss?: boolean | null;
  /** One of remove_all, disable_all and mounts; without it, the mounts do not change */
  object_storage?: {
    /** Deletes all active mounts */
    remove_all?: boolean | null;
    /** Disables all active mounts; they keep their slots */
    disable_all?: boolean | null;
    /** Changes by mount point: a mount to add or replace, or `delete: true`, or `disable: true` */
    mounts?: ({
      /** `s3://<bucket>/<path>` or `oss://<bucket>/<path>` */
      uri: string;
      /** A region or an endpoint is required */
      region?: string | null;
      /** URL of an S3-compatible server */
      endpoint?: string | null;
      /** Absolute path in the sandbox; a missing folder is created */
      mount_point: string;
      access_key: string;
      secret_key: string;
      /** Makes the mount `short_lived` */
      session_token?: string | null;
      delete?: false | null;
      disable?: false | null;
    } | {
      /** Absolute path in the sandbox; a missing folder is created */
      mount_point: string;
      delete: true;
    } | {
      /** Absolute path in the sandbox; a missing folder is created */
      mount_point: string;
      disable: true;
    })[] | null;
  } | null;
}

export type ResumeSandboxData = Sandbox | ResumingSandbox;

export interface ResumingSandbox {
  sandbox_id: string;
  status: 'resuming';
  message: string;
}

export interface Sandbox {
  sandbox_id: string;
  name: string;
  description: string;
  status: 'created' | 'starting' | 'running' | 'pausing' | 'paused' | 'resuming' | 'terminating' | 'terminated' | 'failed';
  substatus: 'allocating' | 'deploying' | 'initializing' | 'waiting_ready' | 'cleaning_resources' | 'cleaning_data' | null;
  /** The reason of this status */
  reason: 'user_requested' | 'timeout' | 'auto_pause' | 'persistence_expired' | 'image_pull_failed' | 'image_refused' | 'not_ready' | 'start_failed' | 'no_capacity' | 'host_lost' | 'host_restarted' | 'host_disk_full' | 'disk_lost' | 'host_disk_pressure' | 'host_draining' | 'runtime_exited' | 'pause_failed' | 'resume_failed' | 'restarted' | 'restart_failed' | 'budget_restricted' | 'quota_used_up' | 'object_storage_mount_failed' | 'object_storage_credentials_required' | 'ended_by_operator' | null;
  template_id: string;
  /** The name of the template when the sandbox was made */
  template_name: string;
  template_exists: boolean;
  project_id: string;
  project_name: string;
  owner: Person;
  /** The account's root user */
  account_owner: Person | null;
  owner_user_id: string;
  region: string;
  /** Only its owner and the account root see it */
  visibility: 'private';
  /** Legacy: the owner's account */
  user_account_id: string;
  /** Legacy: the owner's display name */
  userName: string;
  /** Legacy: the owner's e-mail */
  userEmail: string;
  cpu_count: number;
  memory_mb: number;
  storage_gb: number;
  resources: SandboxResources;
  /** Seconds */
  timeout: number;
  auto_pause: boolean;
  secure: boolean;
  allow_internet_access: boolean;
  sandbox_domain: string;
  /** The agent's address and port inside the platform's network */
  sandbox_domain_internal: string | null;
  web_terminal_available: boolean;
  web_files_available: boolean;
  envd_access_token: string;
  metadata: Record<string, string>;
  env_vars: Record<string, string>;
  object_storage: Mount[] | null;
  object_storage_single: Mount | null;
  object_storage_direct_mount: boolean;
  object_storage_s3fs_path: string;
  ports: Port[];
  template_ports: Port[];
  custom_ports: Port[];
  template_custom_command: string | null;
  template_ready_command: string | null;
  template_source: 'platform_family' | 'custom';
  created_at: string;
  updated_at: string;
  started_at: string | null;
  stopped_at: string | null;
  ended_at: string | null;
  timeout_at: string | null;
  remaining_seconds: number | null;
  paused_at: string | null;
  pausing_at: string | null;
  resumed_at: string | null;
  /** Seconds it has run, without pauses */
  uptime: number;
  total_paused_seconds: number;
  total_running_seconds: number;
  /** Finished phases only */
  actual_total_paused_seconds: number;
  /** Finished phases only */
  actual_total_running_seconds: number;
  lifecycle_outcome: 'completed' | 'timed_out' | 'failed' | 'expired' | 'deleted' | null;
  /** To the minute */
  last_accessed_at: string | null;
  persistence_days: number | null;
  persistence_expires_at: string | null;
  persistence_days_remaining: number | null;
  network_proxy?: {
    proxy_url: string;
    proxy_configs: {
      host: string;
      port: number;
      username: string;
      password: string;
    };
  };
  /** The TURN server for peers of its WEBRTC ports; another route returns their credential */
  webrtc_turn?: {
    turn_public_host: string;
    turn_public_port: number;
    /** Its WEBRTC ports */
    ports: number[];
  };
  /** Details of a failure; kept after its data is removed */
  failure: SandboxFailure | null;
}

export interface SandboxFailure {
  message: string;
  exit_code: number | null;
  out_of_memory: boolean;
  /** The last 8 KiB of the command's output */
  command_output: string;
}

export interface SandboxMetrics {
  /** The beginning of the step */
  timestamp: string;
  cpu_count: number;
  /** Percent of all its cores */
  cpu_used_pct: number;
  /** Bytes */
  disk_total: number;
  /** Bytes */
  disk_used: number;
  /** Bytes */
  mem_total: number;
  /** Bytes, without file cache that the kernel can drop */
  mem_used: number;
}

export interface SandboxPorts {
  /** All of them */
  ports: Port[];
  template_ports: Port[];
  custom_ports: Port[];
}

export interface SandboxResources {
  /** Cores */
  cpu: number;
  /** MB */
  memory: number;
  /** GB */
  storage: number;
  /** Mbit/s to the internet, and the same rate from it; null: not limited */
  bandwidth: number | null;
}

export interface SandboxSummary {
  sandbox_id: string;
  name: string;
  description: string;
  template_id: string;
  /** The name of the template when the sandbox was made */
  template_name: string;
  template_exists: boolean;
  owner_user_id: string;
  project_id: string;
  project_name: string;
  cpu_count: number;
  memory_mb: number;
  storage_gb: number;
  /** Seconds */
  timeout: number;
  timeout_at: string | null;
  remaining_seconds: number | null;
  auto_pause: boolean;
  secure: boolean;
  allow_internet_access: boolean;
  metadata: Record<string, string>;
  env_vars: Record<string, string>;
  object_storage: Mount[] | null;
  object_storage_single: Mount | null;
  object_storage_direct_mount: boolean;
  object_storage_s3fs_path: string;
  ports: Port[];
  template_ports: Port[];
  custom_ports: Port[];
  template_custom_command: string | null;
  template_ready_command: string | null;
  template_source: 'platform_family' | 'custom';
  status: 'created' | 'starting' | 'running' | 'pausing' | 'paused' | 'resuming' | 'terminating' | 'terminated' | 'failed';
  substatus: 'allocating' | 'deploying' | 'initializing' | 'waiting_ready' | 'cleaning_resources' | 'cleaning_data' | null;
  /** The reason of this status */
  reason: 'user_requested' | 'timeout' | 'auto_pause' | 'persistence_expired' | 'image_pull_failed' | 'image_refused' | 'not_ready' | 'start_failed' | 'no_capacity' | 'host_lost' | 'host_restarted' | 'host_disk_full' | 'disk_lost' | 'host_disk_pressure' | 'host_draining' | 'runtime_exited' | 'pause_failed' | 'resume_failed' | 'restarted' | 'restart_failed' | 'budget_restricted' | 'quota_used_up' | 'object_storage_mount_failed' | 'object_storage_credentials_required' | 'ended_by_operator' | null;
  started_at: string | null;
  stopped_at: string | null;
  created_at: string;
  updated_at: string;
  sandbox_domain: string;
  /** The agent's address and port inside the platform's network */
  sandbox_domain_internal: string | null;
  web_terminal_available: boolean;
  web_files_available: boolean;
  paused_at: string | null;
  pausing_at: string | null;
  resumed_at: string | null;
  total_paused_seconds: number;
  lifecycle_outcome: 'completed' | 'timed_out' | 'failed' | 'expired' | 'deleted' | null;
  persistence_days: number | null;
  persistence_expires_at: string | null;
  persistence_days_remaining: number | null;
  /** Seconds it has run, without pauses */
  uptime: number;
  network_proxy?: {
    proxy_url: string;
    proxy_configs: {
      host: string;
      port: number;
      username: string;
      password: string;
    };
  };
  owner?: Person;
}

export interface SetApiKeyStatusBody {
  is_active: boolean;
}

export interface SetApiKeyStatusData {
  message: string;
  is_active: boolean;
}

export interface SetSandboxTimeoutBody {
  /** Seconds */
  timeout: number;
}

export interface SetSandboxTimeoutData {
  timeout: number;
  /** Null while it does not run */
  timeout_at: string | null;
  /** Seconds; null while it does not run */
  remaining_time: number | null;
  applies_to: 'current_phase' | 'next_phase';
  note: string;
}

export interface SignInBody {
  email: string;
  password: string;
}

export interface Template {
  template_id: string;
  name: string;
  description: string;
  default_cpu_count: number;
  default_memory_mb: number;
  visibility: 'private' | 'account_shared' | 'public';
  template_source: 'platform_family' | 'custom';
  custom_image_source: 'external' | 'imported' | null;
  external_image_url: string | null;
  external_registry_username: string | null;
  status: 'pending' | 'building' | 'pushing' | 'available' | 'failed';
  /** Null for built-in templates */
  owner_user_id: string | null;
  owner_account_id: string | null;
  registry_image_url: string | null;
  registry_project: string | null;
  registry_repository: string | null;
  registry_tag: string | null;
  image_size_bytes: number | null;
  /** JSON in text */
  metadata: string | null;
  ports: Port[];
  custom_command: string | null;
  /** Without `custom_command`, sandboxes start the ENTRYPOINT and CMD of the image */
  start_image_command: boolean;
  ready_command: string | null;
  build_started_at: string | null;
  push_started_at: string | null;
  push_completed_at: string | null;
  build_error_message: string | null;
  last_storage_sync_at: string | null;
  created_at: string;
  updated_at: string;
  has_template_document: boolean;
  owner?: {
    user_id: string;
    username: string;
    display_name: string;
  };
  parent_template_id: string | null;
  root_template_id: string | null;
  /** Markdown */
  template_document: string | null;
}

export interface TemplateItem {
  template_id: string;
  name: string;
  description: string;
  default_cpu_count: number;
  default_memory_mb: number;
  visibility: 'private' | 'account_shared' | 'public';
  template_source: 'platform_family' | 'custom';
  custom_image_source: 'external' | 'imported' | null;
  external_image_url: string | null;
  external_registry_username: string | null;
  status: 'pending' | 'building' | 'pushing' | 'available' | 'failed';
  /** Null for built-in templates */
  owner_user_id: string | null;
  owner_account_id: string | null;
  registry_image_url: string | null;
  registry_project: string | null;
  registry_repository: string | null;
  registry_tag: string | null;
  image_size_bytes: number | null;
  /** JSON in text */
  metadata: string | null;
  ports: Port[];
  custom_command: string | null;
  /** Without `custom_command`, sandboxes start the ENTRYPOINT and CMD of the image */
  start_image_command: boolean;
  ready_command: string | null;
  build_started_at: string | null;
  push_started_at: string | null;
  push_completed_at: string | null;
  build_error_message: string | null;
  last_storage_sync_at: string | null;
  created_at: string;
  updated_at: string;
  has_template_document: boolean;
  owner?: {
    user_id: string;
    username: string;
    display_name: string;
  };
}

export type TerminateSandboxData = {
  sandbox_id: string;
  status: 'terminated';
  note: string;
} | {
  sandbox_id: string;
  status: 'termination_in_progress';
  note: string;
};

export interface TerminateSandboxQuery {
  /** Accepted for compatibility; has no effect */
  force?: '0' | '1' | 'true' | 'false' | 'yes' | 'no';
}

export interface UsageSummary {
  /** Sandboxes that ran or were paused at some time in the period */
  total_sessions: number;
  active_sessions: number;
  completed_sessions: number;
  failed_sessions: number;
  /** Hours of one core, reserved while sandboxes run */
  total_cpu_hours: number;
  /** GB × hours, reserved while sandboxes run */
  total_memory_gb_hours: number;
  /** GB × hours of the disks of running and paused sandboxes */
  total_storage_gb_hours: number;
  /** GB sent and received */
  total_traffic_gb: number;
  /** GB × hours of the images of templates */
  total_template_storage_gb_hours: number;
  /** Hours of one core that were used; not charged */
  total_cpu_hours_used: number;
  /** GB × hours of memory that were used; not charged */
  total_memory_gb_hours_used: number;
  /** At the prices of that time; a plan may include it */
  total_cost: number;
  /** Seconds; 0: there is no session */
  avg_session_duration: number;
  currency: string;
}

export interface Webhook {
  endpoint_id: string;
  url: string;
  event_types: string[];
  is_active: boolean;
  /** Why the platform disabled it: it replied 410, or failed for five days */
  disabled_reason: 'gone' | 'failing' | null;
  description: string;
  scope: 'user' | 'account';
  /** For one whole attempt, including the reply */
  timeout_seconds: number;
  max_retries: number;
  /** `whpk_…`: verifies the `v1a` signatures (ed25519) */
  public_key: string;
  /** Requests carry a `v1` signature (HMAC) as well */
  has_secret: boolean;
  /** Deliveries that have ended or have an attempt; a repeated delivery counts again */
  total_deliveries: number;
  successful_deliveries: number;
  /** Deliveries that finally failed */
  failed_deliveries: number;
  last_delivery_at: string | null;
  last_success_at: string | null;
  last_failure_at: string | null;
  created_at: string;
  updated_at: string;
  /** The user whose events it receives; null: all users of the account */
  user_id: string | null;
  /** For root users */
  account_id?: string;
}

export interface WebhookDelivery {
  delivery_id: string;
  event_type: string;
  /** Sent as `webhook-id`, the same with every attempt */
  event_id: string;
  status: 'pending' | 'delivering' | 'retrying' | 'delivered' | 'failed';
  http_status_code: number | null;
  /** The number of the latest ended attempt; 0: none has ended */
  attempt_number: number;
  max_attempts: number;
  next_retry_at: string | null;
  delivered_at: string | null;
  failed_at: string | null;
  /** The error of the latest attempt */
  error_message: string | null;
  created_at: string;
  /** The latest 20, oldest first */
  attempts: {
    started_at: string;
    duration_ms: number;
    http_status_code: number | null;
    /** Why the attempt failed */
    error: string | null;
    /** The beginning of the reply: 4 KiB, in lists 256 characters */
    reply: string | null;
  }[];
}

export interface Operations {
  createSandbox: { body: CreateSandboxBody; query: null; data: CreatedSandbox };
  listSandboxes: { body: null; query: ListSandboxesQuery; data: ListSandboxesData };
  getSandbox: { body: null; query: null; data: Sandbox };
  connectSandbox: { body: ConnectSandboxBody; query: null; data: Sandbox };
  pauseSandbox: { body: PauseSandboxBody; query: null; data: Sandbox };
  resumeSandbox: { body: ResumeSandboxBody; query: null; data: ResumeSandboxData };
  setSandboxTimeout: { body: SetSandboxTimeoutBody; query: null; data: SetSandboxTimeoutData };
  restartSandbox: { body: RestartSandboxBody; query: null; data: Sandbox };
  terminateSandbox: { body: null; query: TerminateSandboxQuery; data: TerminateSandboxData };
  deleteSandbox: { body: null; query: DeleteSandboxQuery; data: DeleteSandboxData };
  getSandboxMetrics: { body: null; query: GetSandboxMetricsQuery; data: GetSandboxMetricsData };
  listSandboxPorts: { body: null; query: null; data: SandboxPorts };
  addSandboxPort: { body: AddSandboxPortBody; query: null; data: AddSandboxPortData };
  removeSandboxPort: { body: null; query: null; data: RemoveSandboxPortData };
  listTemplates: { body: null; query: ListTemplatesQuery; data: ListTemplatesData };
  getTemplate: { body: null; query: null; data: Template };
  importTemplate: { body: ImportTemplateBody; query: null; data: ImportTemplateData };
  createTemplateFromSandbox: { body: CreateTemplateFromSandboxBody; query: null; data: CreateTemplateFromSandboxData };
  deleteTemplate: { body: null; query: null; data: DeleteTemplateData };
  getImportJob: { body: null; query: null; data: ImportJob };
  cancelImportJob: { body: null; query: null; data: CancelImportJobData };
  listApiKeys: { body: null; query: ListApiKeysQuery; data: ListApiKeysData };
  createApiKey: { body: CreateApiKeyBody; query: null; data: CreatedApiKey };
  setApiKeyStatus: { body: SetApiKeyStatusBody; query: null; data: SetApiKeyStatusData };
  deleteApiKey: { body: null; query: null; data: DeleteApiKeyData };
  signIn: { body: SignInBody; query: null; data: AccessToken };
  getUsageSummary: { body: null; query: GetUsageSummaryQuery; data: GetUsageSummaryData };
  getQuota: { body: null; query: null; data: GetQuotaData };
  listWebhooks: { body: null; query: ListWebhooksQuery; data: ListWebhooksData };
  createWebhook: { body: CreateWebhookBody; query: null; data: Webhook };
  deleteWebhook: { body: null; query: null; data: DeleteWebhookData };
  sendTestEvent: { body: null; query: null; data: WebhookDelivery };
}

/** Method and path of each operation. */
export const operations = {
  createSandbox: ['POST', '/v1/sandboxes'],
  listSandboxes: ['GET', '/v1/sandboxes'],
  getSandbox: ['GET', '/v1/sandboxes/{sandbox_id}'],
  connectSandbox: ['POST', '/v1/sandboxes/{sandbox_id}/connect'],
  pauseSandbox: ['POST', '/v1/sandboxes/{sandbox_id}/pause'],
  resumeSandbox: ['POST', '/v1/sandboxes/{sandbox_id}/resume'],
  setSandboxTimeout: ['POST', '/v1/sandboxes/{sandbox_id}/timeout'],
  restartSandbox: ['POST', '/v1/sandboxes/{sandbox_id}/restart'],
  terminateSandbox: ['POST', '/v1/sandboxes/{sandbox_id}/terminate'],
  deleteSandbox: ['DELETE', '/v1/sandboxes/{sandbox_id}'],
  getSandboxMetrics: ['GET', '/v1/sandboxes/{sandbox_id}/metrics'],
  listSandboxPorts: ['GET', '/v1/sandboxes/{sandbox_id}/ports'],
  addSandboxPort: ['POST', '/v1/sandboxes/{sandbox_id}/ports'],
  removeSandboxPort: ['DELETE', '/v1/sandboxes/{sandbox_id}/ports/{port}'],
  listTemplates: ['GET', '/v1/templates'],
  getTemplate: ['GET', '/v1/templates/{template_id}'],
  importTemplate: ['POST', '/v1/templates/import'],
  createTemplateFromSandbox: ['POST', '/v1/sandboxes/{sandbox_id}/create-template'],
  deleteTemplate: ['DELETE', '/v1/templates/{template_id}'],
  getImportJob: ['GET', '/v1/import-jobs/{job_id}'],
  cancelImportJob: ['DELETE', '/v1/import-jobs/{job_id}'],
  listApiKeys: ['GET', '/v1/api-keys'],
  createApiKey: ['POST', '/v1/api-keys'],
  setApiKeyStatus: ['PUT', '/v1/api-keys/{key_id}/status'],
  deleteApiKey: ['DELETE', '/v1/api-keys/{key_id}'],
  signIn: ['POST', '/v1/auth/sign-in'],
  getUsageSummary: ['GET', '/v1/usage/summary'],
  getQuota: ['GET', '/v1/usage/quotas'],
  listWebhooks: ['GET', '/v1/webhooks'],
  createWebhook: ['POST', '/v1/webhooks'],
  deleteWebhook: ['DELETE', '/v1/webhooks/{endpoint_id}'],
  sendTestEvent: ['POST', '/v1/webhooks/{endpoint_id}/test'],
} as const;
