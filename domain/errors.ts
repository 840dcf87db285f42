/**
 * Every error code, with its HTTP status. The code is stable and for programs. The text is for people and reveals no
 * internals of the platform.
 */
export const errorStatus = {
  validation_failed: 400,
  invalid_json: 400,
  invalid_name: 400,
  invalid_region: 400,
  invalid_cwd: 400,
  invalid_pagination: 400,
  invalid_date_range: 400,
  plan_limit_exceeded: 400,
  timeout_not_raised: 400,
  timeout_already_passed: 400,
  template_not_usable: 400,
  template_limit_reached: 400,
  template_storage_limit_reached: 400,
  image_unusable: 400,
  template_document_missing: 400,
  template_not_shareable: 400,
  template_not_external: 400,
  template_already_imported: 400,
  project_name_taken: 400,
  project_not_empty: 400,
  only_default_project: 400,
  project_limit_reached: 400,
  api_key_limit_reached: 400,
  direct_mount_not_possible: 400,
  quota_not_active: 400,
  quota_request_pending: 400,
  quota_request_not_pending: 400,
  weak_password: 400,
  wrong_password: 400,
  password_not_changed: 400,
  no_local_password: 400,
  invalid_link: 400,
  sign_in_not_pending: 400,
  no_session: 400,
  last_root_user: 400,
  last_admin: 400,
  own_deletion: 400,
  email_mismatch: 400,
  email_not_changed: 400,
  user_limit_reached: 400,
  invalid_webhook_url: 400,
  unsupported_event_type: 400,
  webhook_limit_reached: 400,
  balance_too_low: 400,
  invalid_signature: 400,
  payment_method_not_usable: 400,
  payment_method_not_detachable: 400,
  payment_method_limit_reached: 400,
  unknown_plan: 400,
  refund_too_large: 400,
  unauthenticated: 401,
  invalid_credentials: 401,
  identity_not_proven: 401,
  payment_required: 402,
  payment_failed: 402,
  subscription_past_due: 402,
  cross_site_request: 403,
  account_suspended: 403,
  user_disabled: 403,
  sign_in_declined: 403,
  email_not_verified: 403,
  email_domain_not_allowed: 403,
  not_invited: 403,
  quota_used_up: 403,
  budget_restricted: 403,
  root_required: 403,
  admin_required: 403,
  invoice_of_another_account: 403,
  project_of_another_user: 403,
  template_of_another_user: 403,
  not_found: 404,
  template_not_found: 404,
  image_not_found: 404,
  exec_not_found: 404,
  invoice_not_paid: 404,
  route_not_found: 404,
  method_not_allowed: 405,
  budget_exists: 409,
  api_key_name_taken: 409,
  template_name_taken: 409,
  template_in_use: 409,
  import_in_progress: 409,
  import_not_active: 409,
  build_in_progress: 409,
  email_taken: 409,
  plan_change_in_progress: 409,
  username_taken: 409,
  user_being_deleted: 409,
  webhook_not_active: 409,
  delivery_in_progress: 409,
  idempotency_key_reused: 409,
  idempotency_key_in_use: 409,
  sandbox_not_running: 409,
  sandbox_not_paused: 409,
  sandbox_busy: 409,
  sandbox_running: 409,
  exec_in_progress: 409,
  exec_cancelled: 409,
  exec_deadline_exceeded: 409,
  exec_not_possible: 409,
  exec_stream_limit_reached: 409,
  sandbox_ended: 409,
  payment_not_refundable: 409,
  port_taken: 409,
  port_name_taken: 409,
  port_limit_reached: 409,
  port_of_template: 409,
  webrtc_port_required: 409,
  locality_constraint_failed: 409,
  object_storage_credentials_required: 409,
  object_storage_mount_failed: 409,
  pause_failed: 409,
  resume_failed: 409,
  restart_failed: 409,
  agent_not_answering: 409,
  payload_too_large: 413,
  unsupported_media_type: 415,
  concurrent_limit_reached: 429,
  too_many_requests: 429,
  event_stream_limit_reached: 429,
  start_queue_full: 429,
  too_many_sign_ins: 429,
  password_reset_pending: 429,
  email_change_pending: 429,
  internal_error: 500,
  not_supported: 501,
  exec_interrupted: 503,
  host_disk_full: 503,
  no_capacity: 503,
  host_unavailable: 503,
  temporarily_unavailable: 503,
  workflow_failing: 503,
  identity_provider_unavailable: 503,
  turn_not_configured: 503,
  registry_unavailable: 503,
  payments_not_configured: 503,
  payment_processor_unavailable: 503,
} as const;

export type ErrorCode = keyof typeof errorStatus;

/** Codes with status 429: the caller may retry later. */
export type TooManyCode = {
  [Code in ErrorCode]: (typeof errorStatus)[Code] extends 429 ? Code : never;
}[ErrorCode];

export interface ErrorDetail {
  /** Dotted path of the field, as the caller sent it. */
  path: string;
  reason: string;
}

/** A failure with a public text. `cause` stays inside the platform. */
export class AppError extends Error {
  override name = 'AppError';
  readonly code: ErrorCode;
  readonly details: ErrorDetail[] | undefined;
  /** Additional facts for programs. The error reply carries them as `data`. */
  readonly data: Record<string, number> | undefined;
  /** Seconds for the header `Retry-After`. */
  readonly retryAfterSeconds: number | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    options: {
      cause?: unknown;
      details?: ErrorDetail[];
      data?: Record<string, number>;
      retryAfterSeconds?: number;
    } = {},
  ) {
    super(message, { cause: options.cause });
    this.code = code;
    this.details = options.details;
    this.data = options.data;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }

  get status(): number {
    return errorStatus[this.code];
  }
}

/** The same 404 for a missing object and for an object of another account. */
export function notFound(what: string): AppError {
  return new AppError('not_found', `${what} not found`);
}

export function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(errorStatus, code);
}
