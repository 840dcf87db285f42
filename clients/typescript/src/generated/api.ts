// Generated (see clients/README.md). Do not edit.

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

export interface ConnectSandboxBody {
  /** Counts anew from now, and may be shorter; kept when left out */
  timeout?: number | null;
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

export interface DeleteSandboxData {
  sandbox_id: string;
  status: 'deletion_in_progress';
  note: string;
}

export interface DeleteSandboxQuery {
  /** Accepted for compatibility; has no effect */
  force?: '0' | '1' | 'true' | 'false' | 'yes' | 'no';
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

export type RemoveSandboxPortData = null;

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
    mounts?: {
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
    }[] | null;
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

export interface Operations {
  createSandbox: { body: CreateSandboxBody; query: null; data: CreatedSandbox };
  listSandboxes: { body: null; query: ListSandboxesQuery; data: ListSandboxesData };
  getSandbox: { body: null; query: null; data: Sandbox };
  connectSandbox: { body: ConnectSandboxBody; query: null; data: Sandbox };
  pauseSandbox: { body: PauseSandboxBody; query: null; data: Sandbox };
  resumeSandbox: { body: ResumeSandboxBody; query: null; data: ResumeSandboxData };
  setSandboxTimeout: { body: SetSandboxTimeoutBody; query: null; data: SetSandboxTimeoutData };
  terminateSandbox: { body: null; query: TerminateSandboxQuery; data: TerminateSandboxData };
  deleteSandbox: { body: null; query: DeleteSandboxQuery; data: DeleteSandboxData };
  listSandboxPorts: { body: null; query: null; data: SandboxPorts };
  addSandboxPort: { body: AddSandboxPortBody; query: null; data: AddSandboxPortData };
  removeSandboxPort: { body: null; query: null; data: RemoveSandboxPortData };
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
  terminateSandbox: ['POST', '/v1/sandboxes/{sandbox_id}/terminate'],
  deleteSandbox: ['DELETE', '/v1/sandboxes/{sandbox_id}'],
  listSandboxPorts: ['GET', '/v1/sandboxes/{sandbox_id}/ports'],
  addSandboxPort: ['POST', '/v1/sandboxes/{sandbox_id}/ports'],
  removeSandboxPort: ['DELETE', '/v1/sandboxes/{sandbox_id}/ports/{port}'],
} as const;
