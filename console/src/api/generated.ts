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

export interface AddSandboxToProjectData {
  sandbox_id: string;
  /** The project that it is in now */
  project_id: string;
  previous_project: string;
  action: 'added_to_project';
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

export interface AuditEvent {
  event_id: string;
  /** Null: a change of the whole platform */
  account_id: string | null;
  actor_user_id: string | null;
  /** The API key that was used */
  actor_key_id: string | null;
  /** The session whose access token was used */
  actor_session_id: string | null;
  /** The client's IP address; for an operator's command the user and the machine */
  address: string;
  /** `X-Request-Id` of the request */
  audited_request_id: string;
  /** The operation, by its id in this document, or the name of an operator’s command */
  action: string;
  object_id: string | null;
  /** For settings and roles: the changed fields */
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  created_at: string;
}

export interface BalanceChange {
  transaction_id: string;
  account_id: string;
  kind: 'credit_granted' | 'credit_refunded' | 'invoice_issued' | 'invoice_voided' | 'balance_used' | 'payment_received' | 'payment_refunded';
  description: string;
  /** Positive: credit was added */
  amount: number;
  currency: string;
  created_at: string;
}

export interface BatchDeleteSandboxesBody {
  /** `sbx-…`; a repeated id is handled only once */
  sandbox_ids: string[];
  /** Also delete sandboxes that run, start or resume */
  force?: boolean | null;
}

export interface BatchDeleteSandboxesData {
  /** Different ids */
  total: number;
  successful: number;
  failed: number;
  results: {
    sandbox_id: string;
    status: 'deletion_in_progress' | 'failed';
    /** A message for people; only for failed items */
    error?: string;
    /** For programs, like `code` of an error */
    code?: string;
  }[];
}

export interface BatchPauseSandboxesBody {
  /** `sbx-…`; a repeated id is handled only once */
  sandbox_ids: string[];
}

export interface BatchPauseSandboxesData {
  /** Different ids */
  total: number;
  successful: number;
  failed: number;
  results: {
    sandbox_id: string;
    status: 'pausing' | 'failed';
    /** A message for people; only for failed items */
    error?: string;
    /** For programs, like `code` of an error */
    code?: string;
  }[];
}

export interface BatchResumeSandboxesBody {
  /** `sbx-…`; a repeated id is handled only once */
  sandbox_ids: string[];
}

export interface BatchResumeSandboxesData {
  /** Different ids */
  total: number;
  successful: number;
  failed: number;
  results: {
    sandbox_id: string;
    status: 'resuming' | 'failed';
    /** A message for people; only for failed items */
    error?: string;
    /** For programs, like `code` of an error */
    code?: string;
  }[];
}

export interface BatchTerminateSandboxesBody {
  /** `sbx-…`; a repeated id is handled only once */
  sandbox_ids: string[];
  /** Also terminate sandboxes in a transitional status */
  force?: boolean | null;
}

export interface BatchTerminateSandboxesData {
  /** Different ids */
  total: number;
  successful: number;
  failed: number;
  results: {
    sandbox_id: string;
    status: 'termination_in_progress' | 'terminated' | 'failed';
    /** A message for people; only for failed items */
    error?: string;
    /** For programs, like `code` of an error */
    code?: string;
  }[];
}

export interface BillingHistory {
  period: {
    start: string;
    end: string;
  };
  /** Usage at its prices, to a millionth; a free plan includes it */
  total_cost: number;
  sessions: {
    total: number;
    active: number;
    completed: number;
    failed: number;
  };
  breakdown: {
    resource_type: string;
    cost: number;
    percentage: number;
  }[];
  /** Days (UTC) with usage */
  daily_costs: {
    date: string;
    cost: number;
  }[];
}

export interface BillingPeriod {
  /** `current`, or the id of the invoice */
  period_id: string;
  /** A day (UTC), such as 2026-05-04 */
  period_start: string;
  /** A day (UTC), such as 2026-05-04 */
  period_end: string;
  plan: string;
  is_current: boolean;
  type: 'current_period' | 'past_period';
  currency: string;
  subscription_fee: {
    /** The price of the plan with which the period began, and of changes within it */
    standard: number;
    /** For the unused part of the plan before a change */
    credit: number;
    final: number;
  };
  usage_cost: {
    accumulated: number;
    projected: number;
  };
  /** Before tax */
  total: number;
  status: 'active' | 'draft' | 'open' | 'paid' | 'past_due' | 'void';
  invoice_generated: boolean;
  invoice_id: string | null;
}

export interface BillingSnapshot {
  current_period: {
    start: string;
    end: string;
  };
  currency: string;
  /** False: the account gets no invoices and pays nothing, because billing is off or it is an operator's */
  is_billed: boolean;
  /** Plan and usage until now, before tax */
  current_cost: number;
  /** Estimate for the end of the period, if usage continues at the same rate */
  projected_cost: number;
  active_sessions: number;
  completed_sessions: number;
  subscription_fee: {
    plan_name: string;
    /** The price of the plan with which the period began, and of changes within it */
    standard: number;
    /** For the unused part of the plan before a change */
    credit: number;
    final: number;
  };
  /** Usage at its prices; a free plan includes it */
  cost_breakdown: {
    resource_type: string;
    cost: number;
    percentage: number;
  }[];
  /** Usage of each day (UTC) that has any */
  daily_trend: {
    date: string;
    cost: number;
  }[];
}

export interface Budget {
  id: number;
  account_id: string;
  /** The amount for usage in one period of the subscription */
  budget_amount: number;
  currency: string;
  alert_thresholds: {
    /** Of the amount */
    percent: number;
    enabled: boolean;
  }[];
  limit_type: 'soft' | 'hard';
  notification_emails: string[];
  is_active: boolean;
  /** True: a hard limit is used up, and creates and resumes are refused */
  is_restricted: boolean;
  created_at: string;
  updated_at: string;
}

export interface BudgetMessage {
  id: string;
  account_id: string;
  threshold_percent: number;
  /** `exceeded`: the whole amount was used */
  threshold_type: 'warning' | 'exceeded';
  usage_amount: number;
  budget_amount: number;
  currency: string;
  percentage_used: number;
  /** The caller's notification */
  notification_id: string | null;
  /** A mail server took the mail for at least one recipient */
  email_sent: boolean;
  /** Addresses, separated by commas */
  email_recipients: string;
  email_subject: string;
  period_start: string;
  period_end: string;
  created_at: string;
}

export interface BudgetStatus {
  budget_id: number;
  account_id: string;
  budget_amount: number;
  /** The cost of usage since the period began, to a millionth */
  amount_used: number;
  /** Rounded down, so that 100 means fully used */
  percentage_used: number;
  remaining_budget: number;
  currency: string;
  limit_type: 'soft' | 'hard';
  is_restricted: boolean;
  is_active: boolean;
  period_start: string;
  period_end: string;
  alert_thresholds: {
    /** Of the amount */
    percent: number;
    enabled: boolean;
  }[];
  check_interval_minutes: number;
  /** After a change of the amount, a threshold is reported again only after this many hours */
  cooldown_hours: number;
}

export interface BulkDeleteNotificationsBody {
  /** 1 to 100 ids */
  notification_ids: string[];
}

export interface BulkDeleteNotificationsData {
  /** The ids of the deleted notifications */
  notification_ids: string[];
  deleted_count: number;
}

export interface BulkMarkNotificationsReadBody {
  /** 1 to 100 ids */
  notification_ids: string[];
}

export interface BulkMarkNotificationsReadData {
  /** The ids of the marked notifications */
  notification_ids: string[];
  marked_count: number;
  is_read: true;
}

export interface BulkMarkNotificationsUnreadBody {
  /** 1 to 100 ids */
  notification_ids: string[];
}

export interface BulkMarkNotificationsUnreadData {
  /** The ids of the marked notifications */
  notification_ids: string[];
  marked_count: number;
  is_read: false;
}

export interface CancelExecData {
  cancelled: true;
}

export interface CancelImportJobData {
  job_id: string;
  status: 'cancelled';
  message: string;
}

export interface CancelTemplateImportData {
  job_id: string;
  status: 'cancelled';
  message: string;
}

export interface ChangeCreditsBody {
  action: 'grant' | 'refund';
  amount: number;
  description?: string | null;
}

export interface ChangePasswordBody {
  current_password: string;
  /** At most 1024 bytes; none of the most common ones */
  new_password: string;
}

export type ChangePasswordData = null;

export interface ChangeSubscriptionBody {
  plan_name: string;
}

export interface ChangeSubscriptionData {
  subscription: Subscription;
  /** `running`: the charge has not ended; check again later */
  change_status: 'done' | 'running';
}

export interface ChangedTemplate {
  template_id: string;
  name: string;
  description: string;
  default_cpu_count: number;
  default_memory_mb: number;
  visibility: 'private' | 'account_shared' | 'public';
  status: 'pending' | 'building' | 'pushing' | 'available' | 'failed';
  registry_image_url: string | null;
  registry_project: string | null;
  registry_repository: string | null;
  registry_tag: string | null;
  image_size_bytes: number | null;
  /** JSON in text */
  metadata: string | null;
  ports: Port[];
  build_started_at: string | null;
  push_started_at: string | null;
  push_completed_at: string | null;
  build_error_message: string | null;
  last_storage_sync_at: string | null;
  created_at: string;
  updated_at: string;
  owner_id: string | null;
  /** Markdown */
  template_document: string | null;
}

export interface CheckPaymentMethodBody {
  setup_intent_id: string;
}

export interface CheckPaymentMethodData {
  processed: boolean;
  method: {
    payment_method_id: string;
    last4: string | null;
    brand: string | null;
    is_verified: boolean;
  } | null;
}

export type ClearEmailChangeRequestsData = null;

export interface ConfirmEmailChangeBody {
  /** The token of the link in the mail */
  token: string;
}

export interface ConfirmEmailChangeData {
  status: 'pending' | 'completed';
  /** With `pending`: the address that must still confirm */
  pending_email?: string;
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

export interface CreateBudgetBody {
  budget_amount: number;
  /** 50, 80 and 100 % by default */
  alert_thresholds?: {
    /** Of the amount */
    percent: number;
    enabled?: boolean | null;
  }[] | null;
  limit_type?: 'soft' | 'hard' | null;
  notification_emails?: string[] | null;
}

export interface CreateProjectBody {
  /** Unique among your projects */
  name: string;
  description?: string | null;
  /** A user's first project is always the default */
  is_default?: boolean | null;
}

export interface CreateQuotaAllocationBody {
  /** A user of the account; without it, the quota limits the account, all its users together */
  user_id?: string | null;
  cpu_seconds_monthly?: number | null;
  ram_gb_seconds?: number | null;
  sandbox_storage_gb_seconds?: number | null;
  traffic_gb_seconds?: number | null;
  template_storage_gb?: number | null;
  /** Null and 0: not limited by this quota */
  concurrent_sandboxes?: number | null;
}

export interface CreateQuotaRequestBody {
  cpu_seconds_monthly: number | null;
  ram_gb_seconds?: number | null;
  sandbox_storage_gb_seconds?: number | null;
  traffic_gb_seconds?: number | null;
  template_storage_gb: number | null;
  /** Null and 0: not limited by this quota */
  concurrent_sandboxes?: number | null;
  reason: string;
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

export interface CreateTemplateBody {
  name: string;
  description?: string | null;
  default_cpu_count?: number | null;
  default_memory_mb?: number | null;
  /** JSON in text */
  metadata?: string | null;
  /** A command line, or JSON `{"Entrypoint": [], "Cmd": []}` */
  custom_command?: string | null;
  /** Sandboxes start the ENTRYPOINT and CMD of the image if there is no `custom_command`. By default true */
  start_image_command?: boolean | null;
  /** JSON with `type` of `exec`, `httpGet` or `tcpSocket` */
  ready_command?: string | null;
  /** A JSON array of ports, as a string */
  ports?: string | null;
  /** Only operators may set `public` */
  visibility?: 'private' | 'account_shared' | 'public' | null;
  template_source?: 'platform_family' | 'custom' | null;
  /** Required for `custom` */
  custom_image_source?: 'external' | 'imported' | null;
  /** Required for external images */
  external_image_url?: string | null;
  external_registry_username?: string | null;
  /** Never returned; kept until the import has ended */
  external_registry_password?: string | null;
  /** An image in the platform's registry */
  registry_image_url?: string | null;
  registry_project?: string | null;
  registry_repository?: string | null;
  registry_tag?: string | null;
  /** The id of a template with the same `template_source` */
  base_template_id?: string | null;
  /** Do not copy the unprotected ports of the base */
  reset_ports?: boolean | null;
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

export interface CreateUserBody {
  /** ASCII before the `@`; unique, ignoring case */
  email: string;
  /** Unique in the account, ignoring case */
  username: string;
  /** Only an admin can make an admin */
  role: 'user' | 'admin';
  /** Default: the user name */
  display_name?: string | null;
  status?: 'enabled' | 'disabled' | null;
  description?: string | null;
  /** Whether the user administers the account */
  is_root_user?: boolean | null;
}

export interface CreateUserData {
  message: string;
  user: User;
  /** Returned only once. Empty if a mail invites the user to set a password, and in a repeated reply */
  initial_password: string;
  /** Where the user signs in */
  dedicated_signin_url: string | null;
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

export interface CreatedTemplate {
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
  owner_id: string | null;
}

export interface DeadLetter {
  id: string;
  workflow_type: string;
  /** It begins with the id of the object */
  workflow_id: string;
  /** The signal to the workflow. Null: the workflow should start */
  signal: string | null;
  attempts: number;
  last_error: string | null;
  created_at: string;
  /** When it was given up */
  dead_at: string;
}

export interface DeleteAllNotificationsData {
  deleted_count: number;
}

export type DeleteApiKeyData = null;

export type DeleteBudgetData = null;

export interface DeleteNotificationData {
  notification_id: string;
  deleted: true;
}

export type DeletePaymentMethodData = null;

export interface DeleteProjectData {
  project_id: string;
  deleted: true;
}

export interface DeleteQuotaAllocationData {
  allocation_id: string;
  deleted: true;
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

export type DeleteTemplateData = null;

export interface DeleteTemplateDocumentData {
  template_id: string;
  /** Markdown */
  template_document: string | null;
}

export interface DeleteUserData {
  message: string;
  /** The number of removed projects without sandboxes */
  deleted_empty_projects: number;
  deletion_status: 'in_progress';
  note: string;
}

export type DeleteWebhookData = null;

export type EndSessionData = null;

export interface EvictSandboxFromProjectData {
  sandbox_id: string;
  /** The project that it is in now */
  project_id: string;
  previous_project: string;
  action: 'evicted_to_default_project';
}

export interface FinishOidcSignInQuery {
  /** The state of the start in the same browser; works once, for ten minutes */
  state?: string;
  /** The authorization code of the identity provider */
  code?: string;
  /** The issuer, if the provider sends it (RFC 9207) */
  iss?: string;
  /** The reason why the identity provider refused the sign-in */
  error?: string;
  error_description?: string;
}

export interface ForgotPasswordBody {
  email: string;
}

export type ForgotPasswordData = null;

export type GetActiveExecData = {
  active: false;
} | {
  active: true;
  stream_path: string;
  command: string;
  cwd: string;
  started_at: string;
  deadline: string;
};

export interface GetBalanceData {
  account_id: string;
  balance: number;
  currency: string;
}

export interface GetBillingHistoryQuery {
  /** ISO 8601, Unix seconds or milliseconds; default 30 days before the end */
  start?: string;
  /** ISO 8601, Unix seconds or milliseconds; default now. At most 366 days after the start */
  end?: string;
}

export type GetBudgetData = Budget | null;

export type GetBudgetStatusData = BudgetStatus | null;

export interface GetEmailChangeStatusData {
  has_pending_request: boolean;
  status: 'none_confirmed' | 'partial_confirmed' | 'both_confirmed';
}

export interface GetPaymentMethodsStatusData {
  has_payment_methods: boolean;
}

export interface GetPaymentProcessorData {
  publishable_key: string;
  test_mode: boolean;
}

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

export type GetReceiptData = null;

export interface GetReceiptQuery {
  /** `pdf` by default */
  format?: 'pdf' | 'html';
}

export interface GetSandboxMetricsChartData {
  sandbox_id: string;
  status: 'created' | 'starting' | 'running' | 'pausing' | 'paused' | 'resuming' | 'terminating' | 'terminated' | 'failed';
  time_window: {
    start: string;
    end: string;
    /** As in the query */
    step: string;
  };
  /** An ECharts 5 or 6 option with its data: `setOption` draws it */
  chart_config: Record<string, unknown>;
  /** Only the lines, as ECharts data */
  metrics: {
    /** Percent of all its cores */
    cpu_usage: unknown[][];
    /** MiB */
    memory_usage: unknown[][];
    /** MiB */
    disk_usage: unknown[][];
  };
  /** The limits of the sandbox, as an ECharts `markLine` for each line */
  reference_limits: {
    cpu_usage: {
      silent: boolean;
      symbol: 'none';
      label: {
        formatter: string;
        position: 'insideEndTop';
      };
      lineStyle: {
        type: 'dashed';
      };
      data: {
        name: string;
        yAxis: number;
      }[];
    };
    memory_usage: {
      silent: boolean;
      symbol: 'none';
      label: {
        formatter: string;
        position: 'insideEndTop';
      };
      lineStyle: {
        type: 'dashed';
      };
      data: {
        name: string;
        yAxis: number;
      }[];
    };
    disk_usage: {
      silent: boolean;
      symbol: 'none';
      label: {
        formatter: string;
        position: 'insideEndTop';
      };
      lineStyle: {
        type: 'dashed';
      };
      data: {
        name: string;
        yAxis: number;
      }[];
    };
  };
}

export interface GetSandboxMetricsChartQuery {
  /** ISO 8601, Unix seconds or milliseconds; default 5 minutes ago; swapped bounds are put right */
  start?: string;
  /** ISO 8601, Unix seconds or milliseconds; default now; swapped bounds are put right */
  end?: string;
  /** Seconds, or a duration such as 5s, 1m30s, 1h; default 5. A longer step is used if the reply would be too long */
  step?: string;
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

export interface GetSandboxStatsData {
  total_sandboxes: number;
  running_sandboxes: number;
  terminated_sandboxes: number;
  failed_sandboxes: number;
  /** Percent of their cores, over the last minute of those that run; null: none was measured */
  avg_cpu_usage: number | null;
  /** Percent of their memory, over the last minute of those that run; null: none was measured */
  avg_memory_usage: number | null;
  /** Hours of running, including current phases */
  total_uptime_hours: number;
}

export interface GetSandboxStatusData {
  sandbox_id: string;
  status: 'created' | 'starting' | 'running' | 'pausing' | 'paused' | 'resuming' | 'terminating' | 'terminated' | 'failed';
  substatus: 'allocating' | 'deploying' | 'initializing' | 'waiting_ready' | 'cleaning_resources' | 'cleaning_data' | null;
  reason: 'user_requested' | 'timeout' | 'auto_pause' | 'persistence_expired' | 'image_pull_failed' | 'image_refused' | 'not_ready' | 'start_failed' | 'no_capacity' | 'host_lost' | 'host_restarted' | 'host_disk_full' | 'disk_lost' | 'host_disk_pressure' | 'host_draining' | 'runtime_exited' | 'pause_failed' | 'resume_failed' | 'restarted' | 'restart_failed' | 'budget_restricted' | 'quota_used_up' | 'object_storage_mount_failed' | 'object_storage_credentials_required' | 'ended_by_operator' | null;
  updated_at: string;
}

export interface GetSandboxWorkflowData {
  workflow_id: string;
  /** The workflow's page in the Temporal Web UI. Null: no address of it is configured (`TEMPORAL_UI_URL`) */
  web_ui_url: string | null;
}

export interface GetSessionData {
  user_id: string;
  account_id: string;
  email: string;
  display_name: string;
  role: 'user' | 'admin';
  is_root_user: boolean;
  /** When the session ends. Null: the request has an API key, which does not expire */
  expires_at: string | null;
}

export interface GetSubscriptionData {
  subscription: Subscription;
}

export type GetSubscriptionPaymentByPeriodData = SubscriptionPayment | null;

export interface GetTemplateDocumentData {
  template_id: string;
  /** Markdown */
  template_document: string | null;
}

export interface GetTemplateDocumentQuery {
  /** true: return only the Markdown, as a file */
  download?: '0' | '1' | 'true' | 'false' | 'yes' | 'no';
}

export interface GetTemplateStorageUsageData {
  used_gb: number;
  limit_gb: number;
  /** By your own templates */
  user_used_gb: number;
  /** Of your quota; null: it does not limit you */
  user_limit_gb: number | null;
  /** Of the limit */
  percentage: number;
}

export interface GetUsageAnalyticsData {
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
  charts: {
    /** Days without sessions are left out */
    sessions_over_time: {
      /** A day (UTC), such as 2026-05-04 */
      date: string;
      /** The number of sessions that began on this day */
      sessions: number;
    }[];
    /** Days without usage are left out */
    resource_utilization: {
      /** A day (UTC), such as 2026-05-04 */
      date: string;
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
    }[];
    /** Highest cost first */
    cost_breakdown: {
      usage_type: 'cpu_seconds' | 'ram_gb_seconds' | 'sandbox_storage_gb_seconds' | 'traffic_gb' | 'template_storage_gb_seconds' | 'cpu_seconds_used' | 'ram_gb_seconds_used';
      resource_type: 'sandbox' | 'template';
      cost: number;
      percentage: number;
    }[];
  };
}

export interface GetUsageAnalyticsQuery {
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

export interface GetWorkersData {
  /** The release of the API process that replies */
  platform_version: string;
  task_queues: {
    work: 'sandboxes' | 'webhooks' | 'images' | 'money' | 'upkeep';
    task_queue: string;
    kind: 'workflow' | 'activity';
    /** The age of the oldest waiting task. 0: none waits */
    oldest_task_seconds: number;
    /** Workers that have asked for such tasks in the last minutes */
    pollers: number;
  }[];
  /** Of the control workers, newest first. Null: they have no versions (`PLATFORM_WORKER_DEPLOYMENT`) */
  worker_versions: {
    build_id: string;
    /** `current`: new workflows run on it; `draining`: workflows that are pinned to it are open; `drained`: its workers may be stopped; `inactive`: it has never been current */
    status: 'current' | 'draining' | 'drained' | 'inactive';
    pinned_workflows: number;
    current_since: string | null;
  }[] | null;
}

export interface Host {
  host_id: string;
  region: string;
  /** `ready`: takes sandboxes; `draining`: an operator drains it; `away`: it does not renew its lease; `lost`: its sandboxes were given up */
  state: 'ready' | 'draining' | 'away' | 'lost';
  draining_since: string | null;
  lease_expires_at: string;
  /** What may be promised to sandboxes. Null: unlimited */
  capacity: {
    cpu: number | null;
    memory_mb: number | null;
    disk_gb: number | null;
  };
  /** The memory of the machine. Null: not measured yet */
  memory_mb_total: number | null;
  /** Measured room for more sandboxes. Negative: the host is under pressure. Null: not measured yet */
  free: {
    cpu: number;
    memory_mb: number;
    disk_mb: number;
  } | null;
  measured_at: string | null;
  /** Used-up resources: `cpu`, `memory`, `disk` */
  short_of: string[];
  /** The nearly full disk: `data` or `cache` */
  full_disk: string | null;
  /** The number of its sandboxes by status, without ended ones */
  sandboxes: Record<string, number>;
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

export interface ImportJobItem {
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

export interface Invoice {
  invoice_id: string;
  account_id: string;
  billing_period_start: string;
  billing_period_end: string;
  subtotal: number;
  tax_amount: number;
  total_amount: number;
  /** The rest is charged */
  paid_from_balance: number;
  currency: string;
  status: 'draft' | 'open' | 'paid' | 'past_due' | 'void';
  issued_at: string | null;
  due_date: string | null;
  paid_at: string | null;
  line_items: {
    description: string;
    quantity: number;
    unit_price: number;
    amount: number;
    type: 'subscription' | 'usage';
  }[];
  /** True once the invoice is paid: `GET /v1/billing/invoices/{invoice_id}/receipt` */
  has_receipt: boolean;
  receipt_date: string | null;
  /** The processor's id of the method that is charged */
  payment_method: string | null;
  /** The charge */
  payment_reference: string | null;
  /** Why the last charge failed */
  failure_reason: string | null;
}

export interface LinkToAddPaymentMethodData {
  url: string;
  setup_intent_id: string;
  expires_at: string;
}

export interface ListAccountsData {
  accounts: OperatedAccount[];
  pagination: Pagination;
}

export interface ListAccountsQuery {
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
  /** Part of the e-mail or of the name, in any case */
  search?: string;
  status?: 'active' | 'suspended';
}

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

export interface ListAuditEventsData {
  events: AuditEvent[];
  pagination: Pagination;
}

export interface ListAuditEventsQuery {
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
  /** ISO 8601, Unix seconds or milliseconds */
  start?: string;
  /** ISO 8601, Unix seconds or milliseconds */
  end?: string;
  actor_user_id?: string;
  object_id?: string;
  /** Part of the name of the operation */
  action?: string;
}

export interface ListBalanceChangesData {
  changes: BalanceChange[];
  pagination: Pagination;
}

export interface ListBalanceChangesQuery {
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

export interface ListBillingPeriodsData {
  periods: BillingPeriod[];
}

export interface ListBudgetMessagesData {
  messages: BudgetMessage[];
  pagination: Pagination;
}

export interface ListBudgetMessagesQuery {
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
}

export interface ListDeadLettersData {
  dead_letters: DeadLetter[];
  pagination: Pagination;
}

export interface ListDeadLettersQuery {
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
}

export interface ListEventTypesData {
  event_types: {
    type: string;
    description: string;
    /** `account`: only for webhooks of that scope */
    scope: 'user' | 'account';
    /** An example of the event's `data` */
    example: Record<string, unknown>;
  }[];
}

export interface ListHostsData {
  hosts: Host[];
}

export interface ListIdentityProvidersData {
  providers: {
    id: string;
    /** The text of the button */
    label: string;
    /** Where the button leads: `GET /v1/auth/oidc/{issuer}/start` */
    start_path: string;
  }[];
}

export interface ListImportJobsData {
  jobs: ImportJobItem[];
  pagination: Pagination;
}

export interface ListImportJobsQuery {
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
  /** Default ongoing: pending and running jobs */
  status?: 'ongoing' | 'pending' | 'running' | 'completed' | 'failed' | 'cancelled';
  template_id?: string;
}

export interface ListInvoicesData {
  invoices: Invoice[];
  pagination: Pagination;
}

export interface ListInvoicesQuery {
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
}

export interface ListNewestEventsData {
  events: NewestEvent[];
  limit: number;
}

export interface ListNewestEventsQuery {
  /** Another account, for admins only; `all` means all accounts */
  account_id?: string;
  /** Default 20; more than 100 are cut to that */
  limit?: number;
}

export interface ListNotificationsData {
  notifications: NotificationItem[];
  pagination: Pagination;
  /** Of all notifications, independent of the filters */
  unread_count: number;
}

export interface ListNotificationsQuery {
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
  /** `true`: only read ones; `false`: only unread ones */
  read?: '0' | '1' | 'true' | 'false' | 'yes' | 'no';
  /** The exact type */
  type?: string;
}

export interface ListPaymentIntentsData {
  payment_intents: PaymentIntent[];
  pagination: Pagination;
}

export interface ListPaymentIntentsQuery {
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
  /** Only those with this `intent_type` */
  type?: string;
}

export interface ListPaymentMethodsData {
  payment_methods: PaymentMethod[];
}

export interface ListPlansData {
  plans: Plan[];
}

export interface ListPlatformRegionsData {
  platform_regions: PlatformRegion[];
}

export interface ListProjectSandboxesData {
  sandboxes: ProjectSandbox[];
  pagination: Pagination;
}

export interface ListProjectSandboxesQuery {
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
  /** One status, or several, separated by commas */
  status?: string;
}

export interface ListProjectsData {
  projects: Project[];
  pagination: Pagination;
}

export interface ListProjectsQuery {
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
  owner_user_id?: string;
}

export interface ListQuotaAllocationsData {
  allocations: QuotaAllocation[];
  pagination: Pagination;
}

export interface ListQuotaAllocationsQuery {
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
  /** Also list superseded and revoked ones */
  include_inactive?: '0' | '1' | 'true' | 'false' | 'yes' | 'no';
}

export interface ListQuotaRequestsData {
  requests: QuotaRequest[];
  pagination: Pagination;
}

export interface ListQuotaRequestsOfAccountData {
  requests: QuotaRequest[];
  pagination: Pagination;
}

export interface ListQuotaRequestsOfAccountQuery {
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
  status?: 'pending' | 'approved' | 'denied' | 'withdrawn';
}

export interface ListQuotaRequestsQuery {
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
  status?: 'pending' | 'approved' | 'denied' | 'withdrawn';
}

export interface ListSandboxEventsData {
  events: SandboxEvent[];
  pagination: Pagination;
}

export interface ListSandboxEventsQuery {
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

export interface ListSubscriptionHistoryData {
  history: SubscriptionChange[];
  pagination: Pagination;
}

export interface ListSubscriptionHistoryQuery {
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

export interface ListUsageEventsData {
  events: UsageEvent[];
  pagination: Pagination;
}

export interface ListUsageEventsQuery {
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
  /** ISO 8601, Unix seconds or milliseconds; default: from the beginning */
  start?: string;
  /** ISO 8601, Unix seconds or milliseconds; default: up to now */
  end?: string;
  project_id?: string;
  resource_type?: 'sandbox' | 'template';
  usage_type?: 'cpu_seconds' | 'ram_gb_seconds' | 'sandbox_storage_gb_seconds' | 'traffic_gb' | 'template_storage_gb_seconds' | 'cpu_seconds_used' | 'ram_gb_seconds_used';
}

export interface ListUsageSessionsData {
  sessions: UsageSession[];
  pagination: Pagination;
}

export interface ListUsageSessionsQuery {
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
  /** ISO 8601, Unix seconds or milliseconds; default: from the beginning */
  start?: string;
  /** ISO 8601, Unix seconds or milliseconds; default: up to now */
  end?: string;
  project_id?: string;
}

export interface ListUsersData {
  users: UserItem[];
  pagination: Pagination;
}

export interface ListUsersQuery {
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
  status?: 'enabled' | 'disabled';
}

export interface ListWebhookDeliveriesData {
  deliveries: WebhookDelivery[];
  limit: number;
}

export interface ListWebhookDeliveriesQuery {
  /** Default 50; more than 200 are cut to that */
  limit?: number;
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

export interface MarkAllNotificationsReadData {
  /** The number of notifications that were unread */
  marked_count: number;
  is_read: true;
}

export interface MarkNotificationReadData {
  notification_id: string;
  is_read: true;
}

export interface MarkNotificationUnreadData {
  notification_id: string;
  is_read: false;
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

export interface NewestEvent {
  event_id: string;
  type: string;
  /** What has changed */
  object_id: string;
  /** Null: the event is not about a sandbox */
  sandbox_id: string | null;
  created_at: string;
}

export interface Notification {
  id: string;
  user_id: string;
  title: string;
  message: string;
  /** For programs, such as `sandbox_timeout` */
  type: string;
  is_read: boolean;
  /** The kind of its subject, such as `sandbox` */
  category: string;
  created_at: string;
  /** The kind of the related object */
  related_entity_type: string | null;
  related_entity_id: string | null;
}

export interface NotificationItem {
  id: string;
  user_id: string;
  title: string;
  message: string;
  /** For programs, such as `sandbox_timeout` */
  type: string;
  is_read: boolean;
  /** The kind of its subject, such as `sandbox` */
  category: string;
  created_at: string;
}

export interface OperatedAccount {
  account_id: string;
  email: string;
  display_name: string;
  status: 'active' | 'suspended';
  plan_name: string;
  user_count: number;
  /** Sandboxes that count against the plan; paused ones do not */
  active_sandbox_count: number;
  created_at: string;
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

export interface PaymentIntent {
  payment_intent_id: string;
  account_id: string;
  payment_method_id: string | null;
  amount: number;
  currency: string;
  status: 'requires_payment_method' | 'requires_confirmation' | 'requires_action' | 'processing' | 'succeeded' | 'canceled';
  intent_type: string;
  amount_refunded: number;
  /** The processor's code, such as `insufficient_funds` */
  failure_reason: string | null;
  /** JSON */
  metadata: string;
  created_at: string;
  updated_at: string;
}

export interface PaymentMethod {
  id: string;
  account_id: string;
  /** The payment processor's id */
  payment_method_id: string;
  setup_intent_id: string | null;
  type: string;
  fingerprint: string | null;
  last4: string | null;
  exp_month: number | null;
  exp_year: number | null;
  brand: string | null;
  billing_details: {
    name: string | null;
    email: string | null;
    country: string | null;
  };
  is_default: boolean;
  is_deleted: boolean;
  is_verified: boolean;
  verified_at: string | null;
  created_at: string;
  updated_at: string;
}

export interface PaymentRefund {
  refund_id: string;
  payment_intent_id: string;
  account_id: string;
  amount: number;
  currency: string;
  /** `requested`: the outcome is not known; `pending`: the bank processes it; `failed`: nothing was refunded */
  status: 'requested' | 'pending' | 'succeeded' | 'failed';
  /** The processor's code */
  failure_reason: string | null;
  description: string;
  created_at: string;
}

export interface Person {
  user_id: string;
  username: string;
  display_name: string;
  email: string;
}

export interface Plan {
  plan_name: string;
  display_name: string;
  description: string;
  price_amount: number;
  currency: string;
  billing_interval: string;
  is_free: boolean;
  max_concurrent_sandboxes: number;
  max_cpu_cores_per_sandbox: number;
  max_memory_gb_per_sandbox: number;
  max_storage_gb_per_sandbox: number;
  max_sandbox_timeout_seconds: number;
  persistence_days: number;
}

export interface PlatformRegion {
  /** For `locality.region` of a new sandbox */
  id: string;
  name: string;
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

export interface Profile {
  user_id: string;
  email: string;
  username: string;
  display_name: string;
  role: 'user' | 'admin';
  status: 'enabled' | 'disabled';
  is_root_user: boolean;
  /** The user has opened a link that was mailed to this address */
  email_verified: boolean;
  created_at: string;
  last_login: string | null;
  description: string;
  account_id: string;
  oauth_provider: string | null;
  oauth_provider_id: string | null;
  has_local_password: boolean;
  avatar_url: string | null;
  account: {
    account_id: string;
    email: string;
    display_name: string;
    description: string;
    status: 'active' | 'suspended';
    is_verified: boolean;
    created_at: string;
  };
}

export interface Project {
  project_id: string;
  name: string;
  description: string;
  owner_user_id: string;
  /** Reserved */
  status: 'active';
  is_default: boolean;
  /** Sandboxes that are not deleted, including terminated ones */
  sandbox_count: number;
  created_at: string;
  updated_at: string;
  owner?: Person;
  /** The account's root user */
  account_owner?: Person | null;
}

export interface ProjectSandbox {
  name: string;
  description: string;
  template_id: string;
  owner_user_id: string;
  project_id: string;
  cpu_count: number;
  memory_mb: number;
  storage_gb: number;
  status: 'created' | 'starting' | 'running' | 'pausing' | 'paused' | 'resuming' | 'terminating' | 'terminated' | 'failed';
  started_at: string | null;
  stopped_at: string | null;
  created_at: string;
  updated_at: string;
  id: string;
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

export interface QuotaRequest {
  request_id: string;
  user_id: string;
  account_id: string;
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
  reason: string;
  status: 'pending' | 'approved' | 'denied' | 'withdrawn';
  reviewed_by: string | null;
  reviewed_at: string | null;
  review_notes: string | null;
  created_at: string;
  updated_at: string;
}

export type ReceiveProcessorNoticeData = null;

export interface Reconciliation {
  reconciliation_id: string;
  started_at: string;
  ended_at: string;
  /** Charges were also compared with the payment processor */
  reads_processor: boolean;
  charges_from: string;
  charges_until: string;
  difference_count: number;
  /** At most 1000; `npm run admin -- list-differences` shows all */
  differences: {
    kind: 'ledger_not_balanced' | 'invoice_not_booked' | 'booking_without_invoice' | 'invoice_lines_differ' | 'receivable_differs' | 'charge_not_booked' | 'booking_without_charge' | 'refund_not_booked' | 'charge_differs' | 'charge_unknown' | 'charge_missing' | 'usage_refused';
    object_id: string;
    /** Null: not known */
    account_id: string | null;
    /** The value in the rows of the platform */
    expected: string;
    /** The value in the ledger or at the payment processor */
    found: string;
  }[];
}

export interface RefundPaymentIntentBody {
  /** Default: the rest of the charge */
  amount?: number | null;
  description?: string | null;
}

export type RemoveSandboxPortData = null;

export interface RequestEmailChangeBody {
  /** Of the account */
  current_email: string;
  new_email: string;
}

export type RequestEmailChangeData = null;

export type RequestPasswordResetData = null;

export interface ResetPasswordBody {
  /** The token of the link in the mail */
  token: string;
  /** At most 1024 bytes; none of the most common ones */
  new_password: string;
}

export type ResetPasswordData = null;

export interface ResetUserPasswordData {
  message: string;
}

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

export type RetryDeadLetterData = null;

export interface ReviewQuotaRequestBody {
  action: 'approve' | 'deny';
  review_notes?: string | null;
}

export interface RollWebhookSecretBody {
  /** The new secret; required if the webhook has one */
  secret?: string | null;
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

export interface SandboxCost {
  sandbox_id: string;
  currency: string;
  /** To a millionth. Null: this platform charges nothing */
  amount: number | null;
  /** Reserved cores, while the sandbox runs */
  cpu_seconds: number;
  /** Reserved memory, while the sandbox runs */
  ram_gb_seconds: number;
  /** The size of the disk, while the sandbox runs or is paused */
  sandbox_storage_gb_seconds: number;
  /** Sent and received bytes */
  traffic_gb: number;
  /** Used processor time, which has no price */
  cpu_seconds_used: number;
  /** Used memory, which has no price */
  ram_gb_seconds_used: number;
}

export interface SandboxEvent {
  event_id: string;
  /** Counts the events of the sandbox without gaps */
  sequence: number;
  type: string;
  /** The status that the sandbox had then */
  status: 'created' | 'starting' | 'running' | 'pausing' | 'paused' | 'resuming' | 'terminating' | 'terminated' | 'failed';
  /** The reason of the status */
  reason: 'user_requested' | 'timeout' | 'auto_pause' | 'persistence_expired' | 'image_pull_failed' | 'image_refused' | 'not_ready' | 'start_failed' | 'no_capacity' | 'host_lost' | 'host_restarted' | 'host_disk_full' | 'disk_lost' | 'host_disk_pressure' | 'host_draining' | 'runtime_exited' | 'pause_failed' | 'resume_failed' | 'restarted' | 'restart_failed' | 'budget_restricted' | 'quota_used_up' | 'object_storage_mount_failed' | 'object_storage_credentials_required' | 'ended_by_operator' | null;
  created_at: string;
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

export interface SetAccountStatusBody {
  status: 'active' | 'suspended';
}

export interface SetApiKeyStatusBody {
  is_active: boolean;
}

export interface SetApiKeyStatusData {
  message: string;
  is_active: boolean;
}

export interface SetDefaultPaymentMethodBody {
  payment_method_id: string;
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

export interface SetTemplateDocumentBody {
  /** Markdown; blank text clears it */
  template_document: string;
}

export interface SetTemplateDocumentData {
  template_id: string;
  /** Markdown */
  template_document: string | null;
}

export interface SetTemplateStatusBody {
  status: 'pending' | 'building' | 'pushing' | 'available' | 'failed';
  /** Kept with `failed` */
  error_message?: string | null;
  /** Not kept */
  push_logs?: string | null;
  /** An image in the platform's registry */
  registry_image_url?: string | null;
}

export interface SetTemplateStatusData {
  message: string;
  template_id: string;
  build_status: 'pending' | 'building' | 'pushing' | 'available' | 'failed';
}

export interface SetUpPaymentMethodData {
  /** Empty in a repeated reply */
  client_secret: string;
  setup_intent_id: string;
}

export interface ShareTemplateBody {
  /** A new name for the shared template */
  new_name?: string | null;
}

export interface ShareTemplateData {
  template_id: string;
  visibility: 'private' | 'account_shared' | 'public';
  registry_project: string | null;
  registry_image_url: string | null;
  message: string;
}

export interface SignInBody {
  email: string;
  password: string;
}

export type SignOutData = null;

export interface StartExecBody {
  /** Run by `bash -c`, or by `sh -c` if the image has no bash */
  command: string;
  cwd?: string | null;
  /** Added to the sandbox's environment; replaces variables of the same name */
  env?: Record<string, string> | null;
  /** The standard input of the command; default empty */
  stdin?: string | null;
  /** Reply when the command has ended, with its output */
  wait?: boolean | null;
}

export type StartExecData = {
  exit_code: number;
  /** As UTF-8 */
  stdout: string;
  /** As UTF-8 */
  stderr: string;
  /** True: there was more than 1 MiB of output, and its beginning is missing */
  truncated: boolean;
  duration_ms: number;
} | {
  /** With a token that opens only this stream; a repeated reply has no token */
  stream_path: string;
  started_at: string;
  /** The command is killed at this time; later changes of the timeout do not change it */
  deadline: string;
};

export type StartOidcSignInData = null;

export interface StartOidcSignInQuery {
  /** The path in the console where the browser goes after the sign-in. Default `/` */
  return_to?: string;
}

export interface StartSessionBody {
  email: string;
  password: string;
}

export interface StartSessionData {
  expires_at: string;
}

export interface StartTemplateImportData {
  job_id: string;
  template_id: string;
  status: 'pending' | 'running' | 'completed' | 'failed' | 'cancelled';
  external_image_url: string;
  registry_image_url: string;
  created_at: string;
  message: string;
}

export type StreamEventsData = null;

export interface StreamEventsQuery {
  /** Another account, for admins only; `all` means all accounts */
  account_id?: string;
}

export type StreamExecData = null;

export interface StreamExecQuery {
  /** The token of `stream_path`, or an access token; replaces an API key */
  token?: string;
}

export interface Subscription {
  subscription_id: string;
  account_id: string;
  status: 'active' | 'past_due' | 'canceled';
  plan: Plan;
  current_period_start: string;
  current_period_end: string;
  /** Takes effect when the period ends; null: the plan continues */
  planned_plan_name: string | null;
  tax_rate: number;
  created_at: string;
  updated_at: string;
}

export interface SubscriptionChange {
  change_id: string;
  account_id: string;
  subscription_id: string;
  old_plan_name: string;
  new_plan_name: string;
  change_reason: 'upgraded' | 'downgraded';
  old_period_start: string;
  old_period_end: string;
  new_period_start: string;
  new_period_end: string;
  /** Credited for the unused part of the old plan */
  prorated_refund_amount: number;
  old_plan_price: number;
  new_plan_price: number;
  invoice_id: string | null;
  changed_at: string;
}

export interface SubscriptionPayment {
  /** The invoice */
  payment_id: string;
  account_id: string;
  payment_type: 'subscription';
  payment_status: 'draft' | 'open' | 'paid' | 'past_due' | 'void';
  /** Null: paid from the balance, or not charged yet */
  payment_intent_id: string | null;
  period_start: string;
  period_end: string;
  paid_at: string | null;
  created_at: string;
  updated_at: string;
}

export interface SwitchSandboxProjectBody {
  project_id: string;
}

export type SwitchSandboxProjectData = null;

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

export interface TurnCredential {
  /** As `RTCConfiguration.iceServers` */
  ice_servers: {
    urls: string[];
    username: string;
    credential: string;
  }[];
  /** `<Unix expiry in seconds>:<sandbox_id>` */
  username: string;
  credential: string;
  turn_public_host: string;
  turn_public_port: number;
}

export interface UnshareTemplateData {
  template_id: string;
  visibility: 'private' | 'account_shared' | 'public';
  registry_project: string | null;
  registry_image_url: string | null;
  message: string;
}

export interface UpdateAccountBody {
  display_name?: string | null;
  description?: string | null;
}

export interface UpdateAccountData {
  account_id: string;
  email: string;
  display_name: string;
  description: string;
  status: 'active' | 'suspended';
  is_verified: boolean;
  created_at: string;
}

export interface UpdateApiKeyBody {
  /** Unique among the owner's keys */
  name?: string | null;
  description?: string | null;
}

export interface UpdateBudgetBody {
  budget_amount?: number | null;
  alert_thresholds?: {
    /** Of the amount */
    percent: number;
    enabled?: boolean | null;
  }[] | null;
  limit_type?: 'soft' | 'hard' | null;
  notification_emails?: string[] | null;
  is_active?: boolean | null;
}

export interface UpdateProfileBody {
  display_name?: string | null;
  description?: string | null;
  /** Only for account root users; only an admin can grant or revoke `admin` */
  role?: 'user' | 'admin' | null;
  /** Account root only */
  status?: 'enabled' | 'disabled' | null;
  /** Account root only; an account keeps an enabled root user */
  is_root_user?: boolean | null;
}

export type UpdateProfileData = null;

export interface UpdateProjectBody {
  /** Unique among the owner's projects */
  name?: string | null;
  description?: string | null;
  /** true takes it from the present default; false is refused on that one */
  is_default?: boolean | null;
}

export interface UpdateQuotaAllocationBody {
  cpu_seconds_monthly?: number | null;
  ram_gb_seconds?: number | null;
  sandbox_storage_gb_seconds?: number | null;
  traffic_gb_seconds?: number | null;
  template_storage_gb?: number | null;
  /** Null and 0: not limited by this quota */
  concurrent_sandboxes?: number | null;
}

export interface UpdateQuotaRequestBody {
  cpu_seconds_monthly: number | null;
  ram_gb_seconds?: number | null;
  sandbox_storage_gb_seconds?: number | null;
  traffic_gb_seconds?: number | null;
  template_storage_gb: number | null;
  /** Null and 0: not limited by this quota */
  concurrent_sandboxes?: number | null;
  reason: string;
}

export interface UpdateSandboxBody {
  /** Seconds */
  timeout: number;
}

export type UpdateSandboxData = null;

export interface UpdateTemplateBody {
  name?: string | null;
  description?: string | null;
  default_cpu_count?: number | null;
  default_memory_mb?: number | null;
  /** JSON in text */
  metadata?: string | null;
  /** A command line, or JSON `{"Entrypoint": [], "Cmd": []}` */
  custom_command?: string | null;
  /** Sandboxes start the ENTRYPOINT and CMD of the image if there is no `custom_command`. By default true */
  start_image_command?: boolean | null;
  /** JSON with `type` of `exec`, `httpGet` or `tcpSocket` */
  ready_command?: string | null;
  /** A JSON array of ports, as a string */
  ports?: string | null;
  external_image_url?: string | null;
  external_registry_username?: string | null;
  external_registry_password?: string | null;
  /** An image in the platform's registry */
  registry_image_url?: string | null;
}

export interface UpdateTemplateData {
  template: ChangedTemplate;
}

export interface UpdateUserBody {
  display_name?: string | null;
  description?: string | null;
  /** Only for account root users; only an admin can grant or revoke `admin` */
  role?: 'user' | 'admin' | null;
  /** Account root only */
  status?: 'enabled' | 'disabled' | null;
  /** Account root only; an account keeps an enabled root user */
  is_root_user?: boolean | null;
}

export type UpdateUserData = null;

export interface UpdateWebhookBody {
  url?: string | null;
  event_types?: string[] | null;
  is_active?: boolean | null;
  description?: string | null;
  /** `user`: events of your own objects; `account`: all of the account, for root users */
  scope?: 'user' | 'account' | null;
  /** For one whole attempt, including the reply */
  timeout_seconds?: number | null;
  max_retries?: number | null;
  secret?: string | null;
}

export interface UpdatedApiKey {
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
}

export interface UsageEvent {
  event_id: string;
  resource_type: 'sandbox' | 'template';
  resource_id: string;
  user_id: string;
  account_id: string;
  /** Null for a template */
  project_id: string | null;
  usage_type: 'cpu_seconds' | 'ram_gb_seconds' | 'sandbox_storage_gb_seconds' | 'traffic_gb' | 'template_storage_gb_seconds' | 'cpu_seconds_used' | 'ram_gb_seconds_used';
  usage_quantity: number;
  usage_unit: 'cpu_seconds' | 'gb_seconds' | 'gb';
  resource_specs: {
    /** Null for a template */
    cpu_count: number | null;
    /** Null for a template */
    memory_mb: number | null;
  };
  /** When the period ended */
  event_timestamp: string;
  period_start: string;
  /** Within the same hour (UTC) as the start */
  period_end: string;
  /** 0: measured, but not charged */
  unit_price: number;
  total_cost: number;
  currency: string;
  /** Of the sandbox */
  metadata: Record<string, string>;
  tags: ('charged' | 'measured')[];
  /** When it was recorded */
  created_at: string;
}

export interface UsageSession {
  session_id: string;
  resource_type: 'sandbox';
  resource_id: string;
  resource_name: string;
  /** `active`: the sandbox runs or is paused */
  status: 'active' | 'completed' | 'failed';
  /** When it first ran */
  start_time: string;
  /** Null: it is active */
  end_time: string | null;
  /** Seconds from the start to the end, or to now */
  duration: number;
  cpu_count: number;
  memory_mb: number;
  storage_gb: number;
  /** The cost until now */
  estimated_cost: number;
  /** Null: it is active */
  final_cost: number | null;
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

export interface User {
  user_id: string;
  email: string;
  username: string;
  display_name: string;
  role: 'user' | 'admin';
  status: 'enabled' | 'disabled';
  is_root_user: boolean;
  /** The user has opened a link that was mailed to this address */
  email_verified: boolean;
  created_at: string;
  last_login: string | null;
  description: string;
}

export interface UserItem {
  user_id: string;
  email: string;
  username: string;
  display_name: string;
  role: 'user' | 'admin';
  status: 'enabled' | 'disabled';
  is_root_user: boolean;
  /** The user has opened a link that was mailed to this address */
  email_verified: boolean;
  created_at: string;
  last_login: string | null;
}

export interface ValidateTemplateBody {
  /** An image in the platform's registry */
  registry_image_url: string;
}

export interface ValidateTemplateData {
  message: string;
  template_id: string;
  build_status: 'pending' | 'building' | 'pushing' | 'available' | 'failed';
  registry_image_url: string;
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
  getSandboxStats: { body: null; query: null; data: GetSandboxStatsData };
  getSandbox: { body: null; query: null; data: Sandbox };
  updateSandbox: { body: UpdateSandboxBody; query: null; data: UpdateSandboxData };
  deleteSandbox: { body: null; query: DeleteSandboxQuery; data: DeleteSandboxData };
  getSandboxStatus: { body: null; query: null; data: GetSandboxStatusData };
  getSandboxMetrics: { body: null; query: GetSandboxMetricsQuery; data: GetSandboxMetricsData };
  getSandboxMetricsChart: { body: null; query: GetSandboxMetricsChartQuery; data: GetSandboxMetricsChartData };
  listSandboxEvents: { body: null; query: ListSandboxEventsQuery; data: ListSandboxEventsData };
  getSandboxCost: { body: null; query: null; data: SandboxCost };
  getSandboxWorkflow: { body: null; query: null; data: GetSandboxWorkflowData };
  setSandboxTimeout: { body: SetSandboxTimeoutBody; query: null; data: SetSandboxTimeoutData };
  connectSandbox: { body: ConnectSandboxBody; query: null; data: Sandbox };
  pauseSandbox: { body: PauseSandboxBody; query: null; data: Sandbox };
  resumeSandbox: { body: ResumeSandboxBody; query: null; data: ResumeSandboxData };
  restartSandbox: { body: RestartSandboxBody; query: null; data: Sandbox };
  terminateSandbox: { body: null; query: TerminateSandboxQuery; data: TerminateSandboxData };
  switchSandboxProject: { body: SwitchSandboxProjectBody; query: null; data: SwitchSandboxProjectData };
  createTemplateFromSandbox: { body: CreateTemplateFromSandboxBody; query: null; data: CreateTemplateFromSandboxData };
  listSandboxPorts: { body: null; query: null; data: SandboxPorts };
  addSandboxPort: { body: AddSandboxPortBody; query: null; data: AddSandboxPortData };
  removeSandboxPort: { body: null; query: null; data: RemoveSandboxPortData };
  getWebrtcTurnCredential: { body: null; query: null; data: TurnCredential };
  startExec: { body: StartExecBody; query: null; data: StartExecData };
  cancelExec: { body: null; query: null; data: CancelExecData };
  streamExec: { body: null; query: StreamExecQuery; data: StreamExecData };
  getActiveExec: { body: null; query: null; data: GetActiveExecData };
  batchDeleteSandboxes: { body: BatchDeleteSandboxesBody; query: null; data: BatchDeleteSandboxesData };
  batchTerminateSandboxes: { body: BatchTerminateSandboxesBody; query: null; data: BatchTerminateSandboxesData };
  batchPauseSandboxes: { body: BatchPauseSandboxesBody; query: null; data: BatchPauseSandboxesData };
  batchResumeSandboxes: { body: BatchResumeSandboxesBody; query: null; data: BatchResumeSandboxesData };
  listPlatformRegions: { body: null; query: null; data: ListPlatformRegionsData };
  listHosts: { body: null; query: null; data: ListHostsData };
  drainHost: { body: null; query: null; data: Host };
  undrainHost: { body: null; query: null; data: Host };
  listTemplates: { body: null; query: ListTemplatesQuery; data: ListTemplatesData };
  createTemplate: { body: CreateTemplateBody; query: null; data: CreatedTemplate };
  getTemplate: { body: null; query: null; data: Template };
  updateTemplate: { body: UpdateTemplateBody; query: null; data: UpdateTemplateData };
  deleteTemplate: { body: null; query: null; data: DeleteTemplateData };
  getTemplateDocument: { body: null; query: GetTemplateDocumentQuery; data: GetTemplateDocumentData };
  setTemplateDocument: { body: SetTemplateDocumentBody; query: null; data: SetTemplateDocumentData };
  deleteTemplateDocument: { body: null; query: null; data: DeleteTemplateDocumentData };
  setTemplateStatus: { body: SetTemplateStatusBody; query: null; data: SetTemplateStatusData };
  validateTemplate: { body: ValidateTemplateBody; query: null; data: ValidateTemplateData };
  shareTemplate: { body: ShareTemplateBody; query: null; data: ShareTemplateData };
  unshareTemplate: { body: null; query: null; data: UnshareTemplateData };
  getTemplateStorageUsage: { body: null; query: null; data: GetTemplateStorageUsageData };
  importTemplate: { body: ImportTemplateBody; query: null; data: ImportTemplateData };
  startTemplateImport: { body: null; query: null; data: StartTemplateImportData };
  getTemplateImport: { body: null; query: null; data: ImportJob };
  cancelTemplateImport: { body: null; query: null; data: CancelTemplateImportData };
  listImportJobs: { body: null; query: ListImportJobsQuery; data: ListImportJobsData };
  getImportJob: { body: null; query: null; data: ImportJob };
  cancelImportJob: { body: null; query: null; data: CancelImportJobData };
  createProject: { body: CreateProjectBody; query: null; data: Project };
  listProjects: { body: null; query: ListProjectsQuery; data: ListProjectsData };
  getProject: { body: null; query: null; data: Project };
  updateProject: { body: UpdateProjectBody; query: null; data: Project };
  deleteProject: { body: null; query: null; data: DeleteProjectData };
  listProjectSandboxes: { body: null; query: ListProjectSandboxesQuery; data: ListProjectSandboxesData };
  addSandboxToProject: { body: null; query: null; data: AddSandboxToProjectData };
  evictSandboxFromProject: { body: null; query: null; data: EvictSandboxFromProjectData };
  createApiKey: { body: CreateApiKeyBody; query: null; data: CreatedApiKey };
  listApiKeys: { body: null; query: ListApiKeysQuery; data: ListApiKeysData };
  getApiKey: { body: null; query: null; data: ApiKey };
  updateApiKey: { body: UpdateApiKeyBody; query: null; data: UpdatedApiKey };
  deleteApiKey: { body: null; query: null; data: DeleteApiKeyData };
  setApiKeyStatus: { body: SetApiKeyStatusBody; query: null; data: SetApiKeyStatusData };
  listNotifications: { body: null; query: ListNotificationsQuery; data: ListNotificationsData };
  deleteAllNotifications: { body: null; query: null; data: DeleteAllNotificationsData };
  getNotification: { body: null; query: null; data: Notification };
  deleteNotification: { body: null; query: null; data: DeleteNotificationData };
  markNotificationRead: { body: null; query: null; data: MarkNotificationReadData };
  markNotificationUnread: { body: null; query: null; data: MarkNotificationUnreadData };
  markAllNotificationsRead: { body: null; query: null; data: MarkAllNotificationsReadData };
  bulkMarkNotificationsRead: { body: BulkMarkNotificationsReadBody; query: null; data: BulkMarkNotificationsReadData };
  bulkMarkNotificationsUnread: { body: BulkMarkNotificationsUnreadBody; query: null; data: BulkMarkNotificationsUnreadData };
  bulkDeleteNotifications: { body: BulkDeleteNotificationsBody; query: null; data: BulkDeleteNotificationsData };
  signIn: { body: SignInBody; query: null; data: AccessToken };
  signOut: { body: null; query: null; data: SignOutData };
  startSession: { body: StartSessionBody; query: null; data: StartSessionData };
  getSession: { body: null; query: null; data: GetSessionData };
  endSession: { body: null; query: null; data: EndSessionData };
  forgotPassword: { body: ForgotPasswordBody; query: null; data: ForgotPasswordData };
  resetPassword: { body: ResetPasswordBody; query: null; data: ResetPasswordData };
  listIdentityProviders: { body: null; query: null; data: ListIdentityProvidersData };
  startOidcSignIn: { body: null; query: StartOidcSignInQuery; data: StartOidcSignInData };
  finishOidcSignIn: { body: null; query: FinishOidcSignInQuery; data: AccessToken };
  getProfile: { body: null; query: null; data: Profile };
  updateProfile: { body: UpdateProfileBody; query: null; data: UpdateProfileData };
  listUsers: { body: null; query: ListUsersQuery; data: ListUsersData };
  createUser: { body: CreateUserBody; query: null; data: CreateUserData };
  getUser: { body: null; query: null; data: User };
  updateUser: { body: UpdateUserBody; query: null; data: UpdateUserData };
  deleteUser: { body: null; query: null; data: DeleteUserData };
  changePassword: { body: ChangePasswordBody; query: null; data: ChangePasswordData };
  requestPasswordReset: { body: null; query: null; data: RequestPasswordResetData };
  resetUserPassword: { body: null; query: null; data: ResetUserPasswordData };
  updateAccount: { body: UpdateAccountBody; query: null; data: UpdateAccountData };
  requestEmailChange: { body: RequestEmailChangeBody; query: null; data: RequestEmailChangeData };
  getEmailChangeStatus: { body: null; query: null; data: GetEmailChangeStatusData };
  clearEmailChangeRequests: { body: null; query: null; data: ClearEmailChangeRequestsData };
  confirmEmailChange: { body: ConfirmEmailChangeBody; query: null; data: ConfirmEmailChangeData };
  listAuditEvents: { body: null; query: ListAuditEventsQuery; data: ListAuditEventsData };
  listAccounts: { body: null; query: ListAccountsQuery; data: ListAccountsData };
  setAccountStatus: { body: SetAccountStatusBody; query: null; data: OperatedAccount };
  listQuotaAllocations: { body: null; query: ListQuotaAllocationsQuery; data: ListQuotaAllocationsData };
  createQuotaAllocation: { body: CreateQuotaAllocationBody; query: null; data: QuotaAllocation };
  updateQuotaAllocation: { body: UpdateQuotaAllocationBody; query: null; data: QuotaAllocation };
  deleteQuotaAllocation: { body: null; query: null; data: DeleteQuotaAllocationData };
  revokeQuotaAllocation: { body: null; query: null; data: QuotaAllocation };
  listQuotaRequestsOfAccount: { body: null; query: ListQuotaRequestsOfAccountQuery; data: ListQuotaRequestsOfAccountData };
  reviewQuotaRequest: { body: ReviewQuotaRequestBody; query: null; data: QuotaRequest };
  getUsageSummary: { body: null; query: GetUsageSummaryQuery; data: GetUsageSummaryData };
  getUsageAnalytics: { body: null; query: GetUsageAnalyticsQuery; data: GetUsageAnalyticsData };
  listUsageSessions: { body: null; query: ListUsageSessionsQuery; data: ListUsageSessionsData };
  listUsageEvents: { body: null; query: ListUsageEventsQuery; data: ListUsageEventsData };
  getQuota: { body: null; query: null; data: GetQuotaData };
  listQuotaRequests: { body: null; query: ListQuotaRequestsQuery; data: ListQuotaRequestsData };
  createQuotaRequest: { body: CreateQuotaRequestBody; query: null; data: QuotaRequest };
  updateQuotaRequest: { body: UpdateQuotaRequestBody; query: null; data: QuotaRequest };
  withdrawQuotaRequest: { body: null; query: null; data: QuotaRequest };
  createWebhook: { body: CreateWebhookBody; query: null; data: Webhook };
  listWebhooks: { body: null; query: ListWebhooksQuery; data: ListWebhooksData };
  listEventTypes: { body: null; query: null; data: ListEventTypesData };
  listNewestEvents: { body: null; query: ListNewestEventsQuery; data: ListNewestEventsData };
  streamEvents: { body: null; query: StreamEventsQuery; data: StreamEventsData };
  getWebhook: { body: null; query: null; data: Webhook };
  updateWebhook: { body: UpdateWebhookBody; query: null; data: Webhook };
  deleteWebhook: { body: null; query: null; data: DeleteWebhookData };
  rollWebhookSecret: { body: RollWebhookSecretBody; query: null; data: Webhook };
  sendTestEvent: { body: null; query: null; data: WebhookDelivery };
  listWebhookDeliveries: { body: null; query: ListWebhookDeliveriesQuery; data: ListWebhookDeliveriesData };
  getWebhookDelivery: { body: null; query: null; data: WebhookDelivery };
  redeliverWebhookDelivery: { body: null; query: null; data: WebhookDelivery };
  listPlans: { body: null; query: null; data: ListPlansData };
  getSubscription: { body: null; query: null; data: GetSubscriptionData };
  changeSubscription: { body: ChangeSubscriptionBody; query: null; data: ChangeSubscriptionData };
  listSubscriptionHistory: { body: null; query: ListSubscriptionHistoryQuery; data: ListSubscriptionHistoryData };
  getBalance: { body: null; query: null; data: GetBalanceData };
  listBalanceChanges: { body: null; query: ListBalanceChangesQuery; data: ListBalanceChangesData };
  changeCredits: { body: ChangeCreditsBody; query: null; data: BalanceChange };
  listInvoices: { body: null; query: ListInvoicesQuery; data: ListInvoicesData };
  getInvoice: { body: null; query: null; data: Invoice };
  getReceipt: { body: null; query: GetReceiptQuery; data: GetReceiptData };
  getCurrentBilling: { body: null; query: null; data: BillingSnapshot };
  listBillingPeriods: { body: null; query: null; data: ListBillingPeriodsData };
  getBillingHistory: { body: null; query: GetBillingHistoryQuery; data: BillingHistory };
  generateInvoice: { body: null; query: null; data: Invoice };
  getBudget: { body: null; query: null; data: GetBudgetData };
  createBudget: { body: CreateBudgetBody; query: null; data: Budget };
  updateBudget: { body: UpdateBudgetBody; query: null; data: Budget };
  deleteBudget: { body: null; query: null; data: DeleteBudgetData };
  getBudgetStatus: { body: null; query: null; data: GetBudgetStatusData };
  listBudgetMessages: { body: null; query: ListBudgetMessagesQuery; data: ListBudgetMessagesData };
  getPaymentProcessor: { body: null; query: null; data: GetPaymentProcessorData };
  listPaymentMethods: { body: null; query: null; data: ListPaymentMethodsData };
  getPaymentMethodsStatus: { body: null; query: null; data: GetPaymentMethodsStatusData };
  setUpPaymentMethod: { body: null; query: null; data: SetUpPaymentMethodData };
  linkToAddPaymentMethod: { body: null; query: null; data: LinkToAddPaymentMethodData };
  checkPaymentMethod: { body: CheckPaymentMethodBody; query: null; data: CheckPaymentMethodData };
  setDefaultPaymentMethod: { body: SetDefaultPaymentMethodBody; query: null; data: PaymentMethod };
  deletePaymentMethod: { body: null; query: null; data: DeletePaymentMethodData };
  listPaymentIntents: { body: null; query: ListPaymentIntentsQuery; data: ListPaymentIntentsData };
  getPaymentIntent: { body: null; query: null; data: PaymentIntent };
  getSubscriptionPaymentByPeriod: { body: null; query: null; data: GetSubscriptionPaymentByPeriodData };
  refundPaymentIntent: { body: RefundPaymentIntentBody; query: null; data: PaymentRefund };
  getLatestReconciliation: { body: null; query: null; data: Reconciliation };
  listDeadLetters: { body: null; query: ListDeadLettersQuery; data: ListDeadLettersData };
  retryDeadLetter: { body: null; query: null; data: RetryDeadLetterData };
  getWorkers: { body: null; query: null; data: GetWorkersData };
  receiveProcessorNotice: { body: null; query: null; data: ReceiveProcessorNoticeData };
}

/** Method and path of each operation. */
export const operations = {
  createSandbox: ['POST', '/v1/sandboxes'],
  listSandboxes: ['GET', '/v1/sandboxes'],
  getSandboxStats: ['GET', '/v1/sandboxes/stats'],
  getSandbox: ['GET', '/v1/sandboxes/{sandbox_id}'],
  updateSandbox: ['PUT', '/v1/sandboxes/{sandbox_id}'],
  deleteSandbox: ['DELETE', '/v1/sandboxes/{sandbox_id}'],
  getSandboxStatus: ['GET', '/v1/sandboxes/{sandbox_id}/status'],
  getSandboxMetrics: ['GET', '/v1/sandboxes/{sandbox_id}/metrics'],
  getSandboxMetricsChart: ['GET', '/v1/sandboxes/{sandbox_id}/metrics/chart'],
  listSandboxEvents: ['GET', '/v1/sandboxes/{sandbox_id}/events'],
  getSandboxCost: ['GET', '/v1/sandboxes/{sandbox_id}/cost'],
  getSandboxWorkflow: ['GET', '/v1/admin/sandboxes/{sandbox_id}/workflow'],
  setSandboxTimeout: ['POST', '/v1/sandboxes/{sandbox_id}/timeout'],
  connectSandbox: ['POST', '/v1/sandboxes/{sandbox_id}/connect'],
  pauseSandbox: ['POST', '/v1/sandboxes/{sandbox_id}/pause'],
  resumeSandbox: ['POST', '/v1/sandboxes/{sandbox_id}/resume'],
  restartSandbox: ['POST', '/v1/sandboxes/{sandbox_id}/restart'],
  terminateSandbox: ['POST', '/v1/sandboxes/{sandbox_id}/terminate'],
  switchSandboxProject: ['POST', '/v1/sandboxes/{sandbox_id}/switch-project'],
  createTemplateFromSandbox: ['POST', '/v1/sandboxes/{sandbox_id}/create-template'],
  listSandboxPorts: ['GET', '/v1/sandboxes/{sandbox_id}/ports'],
  addSandboxPort: ['POST', '/v1/sandboxes/{sandbox_id}/ports'],
  removeSandboxPort: ['DELETE', '/v1/sandboxes/{sandbox_id}/ports/{port}'],
  getWebrtcTurnCredential: ['GET', '/v1/sandboxes/{sandbox_id}/webrtc-turn-credential'],
  startExec: ['POST', '/v1/sandboxes/{sandbox_id}/exec'],
  cancelExec: ['DELETE', '/v1/sandboxes/{sandbox_id}/exec'],
  streamExec: ['GET', '/v1/sandboxes/{sandbox_id}/exec/stream'],
  getActiveExec: ['GET', '/v1/sandboxes/{sandbox_id}/exec/active'],
  batchDeleteSandboxes: ['POST', '/v1/sandboxes/batch-delete'],
  batchTerminateSandboxes: ['POST', '/v1/sandboxes/batch-terminate'],
  batchPauseSandboxes: ['POST', '/v1/sandboxes/batch-pause'],
  batchResumeSandboxes: ['POST', '/v1/sandboxes/batch-resume'],
  listPlatformRegions: ['GET', '/v1/platform-regions'],
  listHosts: ['GET', '/v1/admin/hosts'],
  drainHost: ['POST', '/v1/admin/hosts/{host_id}/drain'],
  undrainHost: ['DELETE', '/v1/admin/hosts/{host_id}/drain'],
  listTemplates: ['GET', '/v1/templates'],
  createTemplate: ['POST', '/v1/templates'],
  getTemplate: ['GET', '/v1/templates/{template_id}'],
  updateTemplate: ['PUT', '/v1/templates/{template_id}'],
  deleteTemplate: ['DELETE', '/v1/templates/{template_id}'],
  getTemplateDocument: ['GET', '/v1/templates/{template_id}/document'],
  setTemplateDocument: ['PUT', '/v1/templates/{template_id}/document'],
  deleteTemplateDocument: ['DELETE', '/v1/templates/{template_id}/document'],
  setTemplateStatus: ['PUT', '/v1/templates/{template_id}/status'],
  validateTemplate: ['POST', '/v1/templates/{template_id}/validate'],
  shareTemplate: ['POST', '/v1/templates/{template_id}/share'],
  unshareTemplate: ['POST', '/v1/templates/{template_id}/unshare'],
  getTemplateStorageUsage: ['GET', '/v1/templates/storage-usage'],
  importTemplate: ['POST', '/v1/templates/import'],
  startTemplateImport: ['POST', '/v1/templates/{template_id}/import'],
  getTemplateImport: ['GET', '/v1/templates/{template_id}/import'],
  cancelTemplateImport: ['DELETE', '/v1/templates/{template_id}/import'],
  listImportJobs: ['GET', '/v1/import-jobs'],
  getImportJob: ['GET', '/v1/import-jobs/{job_id}'],
  cancelImportJob: ['DELETE', '/v1/import-jobs/{job_id}'],
  createProject: ['POST', '/v1/projects'],
  listProjects: ['GET', '/v1/projects'],
  getProject: ['GET', '/v1/projects/{project_id}'],
  updateProject: ['PUT', '/v1/projects/{project_id}'],
  deleteProject: ['DELETE', '/v1/projects/{project_id}'],
  listProjectSandboxes: ['GET', '/v1/projects/{project_id}/sandboxes'],
  addSandboxToProject: ['POST', '/v1/projects/{project_id}/sandboxes/{sandbox_id}/add'],
  evictSandboxFromProject: ['POST', '/v1/projects/{project_id}/sandboxes/{sandbox_id}/evict'],
  createApiKey: ['POST', '/v1/api-keys'],
  listApiKeys: ['GET', '/v1/api-keys'],
  getApiKey: ['GET', '/v1/api-keys/{key_id}'],
  updateApiKey: ['PUT', '/v1/api-keys/{key_id}'],
  deleteApiKey: ['DELETE', '/v1/api-keys/{key_id}'],
  setApiKeyStatus: ['PUT', '/v1/api-keys/{key_id}/status'],
  listNotifications: ['GET', '/v1/notifications'],
  deleteAllNotifications: ['DELETE', '/v1/notifications'],
  getNotification: ['GET', '/v1/notifications/{notification_id}'],
  deleteNotification: ['DELETE', '/v1/notifications/{notification_id}'],
  markNotificationRead: ['PATCH', '/v1/notifications/{notification_id}/read'],
  markNotificationUnread: ['PATCH', '/v1/notifications/{notification_id}/unread'],
  markAllNotificationsRead: ['PATCH', '/v1/notifications/read-all'],
  bulkMarkNotificationsRead: ['PATCH', '/v1/notifications/bulk-read'],
  bulkMarkNotificationsUnread: ['PATCH', '/v1/notifications/bulk-unread'],
  bulkDeleteNotifications: ['POST', '/v1/notifications/bulk-delete'],
  signIn: ['POST', '/v1/auth/sign-in'],
  signOut: ['POST', '/v1/auth/sign-out'],
  startSession: ['POST', '/v1/auth/session'],
  getSession: ['GET', '/v1/auth/session'],
  endSession: ['DELETE', '/v1/auth/session'],
  forgotPassword: ['POST', '/v1/auth/forgot-password'],
  resetPassword: ['POST', '/v1/auth/reset-password'],
  listIdentityProviders: ['GET', '/v1/auth/providers'],
  startOidcSignIn: ['GET', '/v1/auth/oidc/{issuer}/start'],
  finishOidcSignIn: ['GET', '/v1/auth/oidc/{issuer}/callback'],
  getProfile: ['GET', '/v1/users/me'],
  updateProfile: ['PUT', '/v1/users/me'],
  listUsers: ['GET', '/v1/user-management/users'],
  createUser: ['POST', '/v1/user-management/users'],
  getUser: ['GET', '/v1/user-management/users/{user_id}'],
  updateUser: ['PUT', '/v1/user-management/users/{user_id}'],
  deleteUser: ['DELETE', '/v1/user-management/users/{user_id}'],
  changePassword: ['POST', '/v1/user-management/change-password'],
  requestPasswordReset: ['POST', '/v1/user-management/request-password-reset'],
  resetUserPassword: ['POST', '/v1/user-management/users/{user_id}/reset-password'],
  updateAccount: ['PUT', '/v1/user-management/account'],
  requestEmailChange: ['POST', '/v1/user-management/account/email-change-request'],
  getEmailChangeStatus: ['GET', '/v1/user-management/account/email-change-status'],
  clearEmailChangeRequests: ['POST', '/v1/user-management/account/clear-email-change-requests'],
  confirmEmailChange: ['POST', '/v1/user-management/account/confirm-email-change'],
  listAuditEvents: ['GET', '/v1/audit-events'],
  listAccounts: ['GET', '/v1/admin/accounts'],
  setAccountStatus: ['PUT', '/v1/admin/accounts/{account_id}/status'],
  listQuotaAllocations: ['GET', '/v1/user-management/quota-allocations'],
  createQuotaAllocation: ['POST', '/v1/user-management/quota-allocations'],
  updateQuotaAllocation: ['PUT', '/v1/user-management/quota-allocations/{allocation_id}'],
  deleteQuotaAllocation: ['DELETE', '/v1/user-management/quota-allocations/{allocation_id}'],
  revokeQuotaAllocation: ['POST', '/v1/user-management/quota-allocations/{allocation_id}/revoke'],
  listQuotaRequestsOfAccount: ['GET', '/v1/user-management/quota-requests'],
  reviewQuotaRequest: ['POST', '/v1/user-management/quota-requests/{request_id}/review'],
  getUsageSummary: ['GET', '/v1/usage/summary'],
  getUsageAnalytics: ['GET', '/v1/usage/analytics'],
  listUsageSessions: ['GET', '/v1/usage/sessions'],
  listUsageEvents: ['GET', '/v1/usage/events'],
  getQuota: ['GET', '/v1/usage/quotas'],
  listQuotaRequests: ['GET', '/v1/usage/quota-requests'],
  createQuotaRequest: ['POST', '/v1/usage/quota-requests'],
  updateQuotaRequest: ['PUT', '/v1/usage/quota-requests/{request_id}'],
  withdrawQuotaRequest: ['DELETE', '/v1/usage/quota-requests/{request_id}'],
  createWebhook: ['POST', '/v1/webhooks'],
  listWebhooks: ['GET', '/v1/webhooks'],
  listEventTypes: ['GET', '/v1/webhooks/event-types'],
  listNewestEvents: ['GET', '/v1/events'],
  streamEvents: ['GET', '/v1/events/stream'],
  getWebhook: ['GET', '/v1/webhooks/{endpoint_id}'],
  updateWebhook: ['PUT', '/v1/webhooks/{endpoint_id}'],
  deleteWebhook: ['DELETE', '/v1/webhooks/{endpoint_id}'],
  rollWebhookSecret: ['POST', '/v1/webhooks/{endpoint_id}/roll-secret'],
  sendTestEvent: ['POST', '/v1/webhooks/{endpoint_id}/test'],
  listWebhookDeliveries: ['GET', '/v1/webhooks/{endpoint_id}/deliveries'],
  getWebhookDelivery: ['GET', '/v1/webhooks/{endpoint_id}/deliveries/{delivery_id}'],
  redeliverWebhookDelivery: ['POST', '/v1/webhooks/{endpoint_id}/deliveries/{delivery_id}/redeliver'],
  listPlans: ['GET', '/v1/user-management/plans'],
  getSubscription: ['GET', '/v1/user-management/account/subscription'],
  changeSubscription: ['POST', '/v1/user-management/account/subscription'],
  listSubscriptionHistory: ['GET', '/v1/user-management/account/subscription/history'],
  getBalance: ['GET', '/v1/billing/balance'],
  listBalanceChanges: ['GET', '/v1/billing/balance/changes'],
  changeCredits: ['POST', '/v1/accounts/{account_id}/credits'],
  listInvoices: ['GET', '/v1/billing/invoices'],
  getInvoice: ['GET', '/v1/billing/invoices/{invoice_id}'],
  getReceipt: ['GET', '/v1/billing/invoices/{invoice_id}/receipt'],
  getCurrentBilling: ['GET', '/v1/billing/current'],
  listBillingPeriods: ['GET', '/v1/billing/periods'],
  getBillingHistory: ['GET', '/v1/billing/history'],
  generateInvoice: ['POST', '/v1/billing/invoice/generate'],
  getBudget: ['GET', '/v1/budgets'],
  createBudget: ['POST', '/v1/budgets'],
  updateBudget: ['PUT', '/v1/budgets'],
  deleteBudget: ['DELETE', '/v1/budgets'],
  getBudgetStatus: ['GET', '/v1/budgets/status'],
  listBudgetMessages: ['GET', '/v1/budgets/messages'],
  getPaymentProcessor: ['GET', '/v1/config/payment-processor'],
  listPaymentMethods: ['GET', '/v1/payment/methods'],
  getPaymentMethodsStatus: ['GET', '/v1/payment/methods/status'],
  setUpPaymentMethod: ['POST', '/v1/payment/methods/setup-intent'],
  linkToAddPaymentMethod: ['POST', '/v1/payment/methods/link'],
  checkPaymentMethod: ['POST', '/v1/payment/methods/check-status'],
  setDefaultPaymentMethod: ['POST', '/v1/payment/methods/set-default'],
  deletePaymentMethod: ['DELETE', '/v1/payment/methods/{id}'],
  listPaymentIntents: ['GET', '/v1/payment/intents'],
  getPaymentIntent: ['GET', '/v1/payment/intents/{id}'],
  getSubscriptionPaymentByPeriod: ['GET', '/v1/payment/subscription-payment-by-period'],
  refundPaymentIntent: ['POST', '/v1/payment/intents/{id}/refunds'],
  getLatestReconciliation: ['GET', '/v1/admin/reconciliations/latest'],
  listDeadLetters: ['GET', '/v1/admin/dead-letters'],
  retryDeadLetter: ['POST', '/v1/admin/dead-letters/{id}/retry'],
  getWorkers: ['GET', '/v1/admin/workers'],
  receiveProcessorNotice: ['POST', '/v1/payment/processor-webhook'],
} as const;
