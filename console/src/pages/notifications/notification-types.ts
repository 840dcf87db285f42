/** What notifications are about. Types that a later release adds can still be asked for in the address. */
export const notificationTypes: Readonly<Record<string, string>> = {
  sandbox_timeout: 'A sandbox times out soon',
  sandbox_expiry: 'A paused sandbox is removed soon',
  sandbox_failed: 'A sandbox has failed',
  sandbox_host_disk_pressure: 'A sandbox was paused because a disk is full',
  template_build_completed: 'A template is made',
  template_build_failed: 'A template could not be made',
  template_import_completed: 'An import is completed',
  template_import_failed: 'An import has failed',
  quota_nearly_used_up: 'A quota is nearly used up',
  quota_used_up: 'A quota is used up',
  quota_request_created: 'A quota is requested',
  quota_request_approved: 'A quota request is approved',
  quota_request_denied: 'A quota request is rejected',
  budget_threshold: 'A budget has reached a threshold',
  budget_restricted: 'A budget is used up',
  budget_restored: 'A budget is no longer used up',
  subscription_past_due: 'An invoice could not be charged',
  webhook_disabled: 'A webhook is disabled',
};

/** Operations whose replies a change of a notification makes old. */
export const changes = ['listNotifications', 'getNotification'] as const;
