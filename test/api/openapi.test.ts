import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { errorStatus } from '../../domain/errors.ts';
import { eventTypes } from '../../domain/event-types.ts';
import { processorSettings } from '../support/processor-settings.ts';
import type { Json } from './contract-client.ts';
import { startApi, type TestApi } from './test-api.ts';

let api: TestApi;
let document: Json;
beforeAll(async () => {
  api = await startApi({ env: processorSettings() });
  document = api.client.document;
});
afterAll(() => api.stop());

const words = (text: string) => text.split(/\s+/).filter(Boolean).sort();

const person = words('user_id username display_name email');
const pagination = words('page limit total total_pages offset total_is_capped next_cursor');

/** `owner_user_id` and `failure` are additions of this platform. */
const sandbox = words(`
  sandbox_id name description status substatus reason template_id template_name template_exists project_id
  project_name owner account_owner region visibility user_account_id userName userEmail
  cpu_count memory_mb storage_gb resources timeout auto_pause secure allow_internet_access sandbox_domain
  sandbox_domain_internal web_terminal_available web_files_available envd_access_token
  metadata env_vars object_storage object_storage_single object_storage_direct_mount object_storage_s3fs_path ports
  template_ports custom_ports template_custom_command template_ready_command template_source
  created_at updated_at started_at stopped_at ended_at timeout_at remaining_seconds paused_at pausing_at resumed_at
  owner_user_id uptime total_paused_seconds total_running_seconds actual_total_paused_seconds actual_total_running_seconds
  lifecycle_outcome last_accessed_at
  persistence_days persistence_expires_at persistence_days_remaining network_proxy
  webrtc_turn failure`);

const sandboxSummary = words(`
  sandbox_id name description template_id template_name template_exists owner_user_id project_id project_name cpu_count
  memory_mb storage_gb timeout timeout_at remaining_seconds auto_pause secure allow_internet_access metadata env_vars
  object_storage object_storage_single object_storage_direct_mount object_storage_s3fs_path ports template_ports
  custom_ports template_custom_command template_ready_command template_source status substatus reason started_at
  stopped_at created_at updated_at sandbox_domain sandbox_domain_internal web_terminal_available web_files_available
  paused_at pausing_at resumed_at total_paused_seconds lifecycle_outcome persistence_days persistence_expires_at
  persistence_days_remaining uptime network_proxy
  owner`);

const createdSandbox = words(`
  sandbox_id name description template_id template_name owner_user_id project_id cpu_count memory_mb storage_gb timeout
  auto_pause secure allow_internet_access metadata env_vars object_storage object_storage_single object_storage_direct_mount
  object_storage_s3fs_path ports template_ports custom_ports template_custom_command template_ready_command status
  substatus reason created_at updated_at started_at timeout_at uptime sandbox_domain sandbox_domain_internal
  web_terminal_available web_files_available envd_access_token persistence_days persistence_expires_at persistence_days_remaining network_proxy
  failure`);

const slimSandbox = words(`
  id name description template_id owner_user_id project_id cpu_count memory_mb storage_gb status started_at stopped_at
  created_at updated_at`);

const templateItem = words(`
  template_id name description default_cpu_count default_memory_mb visibility template_source custom_image_source
  external_image_url external_registry_username status owner_user_id owner_account_id registry_image_url
  registry_project registry_repository registry_tag image_size_bytes metadata ports custom_command ready_command
  build_started_at push_started_at push_completed_at build_error_message last_storage_sync_at created_at updated_at
  has_template_document owner start_image_command`);

const createdTemplate = words(`
  template_id name description default_cpu_count default_memory_mb visibility template_source custom_image_source
  external_image_url external_registry_username status registry_image_url registry_project registry_repository registry_tag
  image_size_bytes metadata ports custom_command ready_command build_started_at push_started_at push_completed_at
  build_error_message last_storage_sync_at owner_id created_at updated_at start_image_command`);
const changedTemplate = words(`
  template_id name description template_document default_cpu_count default_memory_mb visibility status registry_image_url
  registry_project registry_repository registry_tag image_size_bytes metadata ports build_started_at push_started_at
  push_completed_at build_error_message last_storage_sync_at owner_id created_at updated_at`);
const importJobItem = words(`
  job_id template_id status progress_percentage external_image_url registry_image_url created_at started_at completed_at`);
const operatedAccount = words(
  'account_id email display_name status plan_name user_count active_sandbox_count created_at',
);
const host = words(`
  host_id region state draining_since lease_expires_at capacity memory_mb_total free measured_at short_of full_disk sandboxes`);
const importJob = [
  ...importJobItem,
  ...words('updated_at last_log_message error_message skopeo_logs retry_count max_retries'),
].sort();
const templateDocument = { '': words('template_id template_document') };
const sharing = { '': words('template_id visibility registry_project registry_image_url message') };

const project = words(
  'project_id name description owner_user_id status is_default sandbox_count created_at updated_at owner account_owner',
);
const key = words('key_id name description prefix is_active last_used_at created_at updated_at');
const notification = words('id user_id title message type is_read category created_at');
const userItem = words(
  'user_id email username display_name role status is_root_user email_verified created_at last_login',
);
const user = [...userItem, 'description'].sort();
const account = words('account_id email display_name description status is_verified created_at');
const quota = words(
  'cpu_seconds_monthly ram_gb_seconds sandbox_storage_gb_seconds traffic_gb_seconds template_storage_gb concurrent_sandboxes',
);
const allocation = [
  ...quota,
  ...words('allocation_id account_id user_id allocated_by_user_id status created_at updated_at'),
].sort();
const quotaRequest = [
  ...quota,
  ...words('request_id user_id account_id reason status reviewed_by reviewed_at review_notes created_at updated_at'),
].sort();
const used = words(`
  total_cpu_hours total_memory_gb_hours total_storage_gb_hours total_traffic_gb total_template_storage_gb_hours
  total_cpu_hours_used total_memory_gb_hours_used total_cost`);
const usageSummary = [
  ...used,
  ...words('total_sessions active_sessions completed_sessions failed_sessions avg_session_duration currency'),
].sort();
const groups = ['value', ...used].sort();
const quotaRequests = { '': words('requests pagination'), 'requests[]': quotaRequest, pagination };
const balanceChange = words('transaction_id account_id kind description amount currency created_at');
const budget = words(`
  id account_id budget_amount currency alert_thresholds limit_type notification_emails is_active is_restricted created_at
  updated_at`);
const threshold = words('percent enabled');
const budgetStatus = words(`
  budget_id account_id budget_amount amount_used percentage_used remaining_budget currency limit_type is_restricted is_active
  period_start period_end alert_thresholds check_interval_minutes cooldown_hours`);
const budgetMessage = words(`
  id account_id threshold_percent threshold_type usage_amount budget_amount currency percentage_used notification_id email_sent
  email_recipients email_subject period_start period_end created_at`);
const paymentMethod = words(`
  id account_id payment_method_id setup_intent_id type fingerprint last4 exp_month exp_year brand billing_details is_default
  is_deleted is_verified verified_at created_at updated_at`);
const invoice = words(`
  invoice_id account_id billing_period_start billing_period_end subtotal tax_amount total_amount paid_from_balance currency status
  issued_at due_date paid_at line_items has_receipt receipt_date payment_method payment_reference failure_reason`);
const invoiceLine = words('description quantity unit_price amount type');
const plan = words(`plan_name display_name description price_amount currency billing_interval is_free
  max_concurrent_sandboxes max_cpu_cores_per_sandbox max_memory_gb_per_sandbox
  max_storage_gb_per_sandbox max_sandbox_timeout_seconds persistence_days`);
const subscription = words(`
  subscription_id account_id status plan current_period_start current_period_end planned_plan_name tax_rate created_at updated_at`);
const subscriptionChange = words(`
  change_id account_id subscription_id old_plan_name new_plan_name change_reason old_period_start old_period_end
  new_period_start new_period_end prorated_refund_amount old_plan_price new_plan_price invoice_id changed_at`);
const costs = words('resource_type cost percentage');
const paymentIntent = words(`
  payment_intent_id account_id payment_method_id amount currency status intent_type amount_refunded failure_reason metadata
  created_at updated_at`);
const webhook = words(`
  endpoint_id url event_types is_active disabled_reason description scope timeout_seconds max_retries public_key has_secret
  total_deliveries successful_deliveries failed_deliveries last_delivery_at last_success_at last_failure_at created_at
  updated_at user_id account_id`);
const delivery = words(`
  delivery_id event_type event_id status http_status_code attempt_number max_attempts next_retry_at delivered_at failed_at
  error_message created_at attempts`);
const attempts = words('started_at duration_ms http_status_code error reply');
const ending = words('sandbox_id status note');
/** Only UDP ports have `host_port`. */
const port = words('port service_port protocol name is_protected host_port');
const move = words('sandbox_id project_id previous_project action');

/** Fields of `data` in each successful reply, and of the objects in it, as the specification lists them. */
const contract: Record<string, Record<string, string[]>> = {
  'POST /v1/sandboxes 201': { '': createdSandbox, failure: words('message exit_code out_of_memory command_output') },
  'GET /v1/sandboxes 200': {
    '': ['pagination', 'sandboxes'],
    'sandboxes[]': sandboxSummary,
    'sandboxes[].ports[]': port,
    'sandboxes[].object_storage[]': words('slot state uri mount_point region endpoint short_lived'),
    pagination,
  },
  'GET /v1/sandboxes/{sandbox_id} 200': {
    '': sandbox,
    owner: person,
    account_owner: person,
    resources: words('cpu memory storage bandwidth'),
    network_proxy: words('proxy_url proxy_configs'),
    'network_proxy.proxy_configs': words('host port username password'),
  },
  'PUT /v1/sandboxes/{sandbox_id} 200': {},
  'DELETE /v1/sandboxes/{sandbox_id} 202': { '': ending },
  'GET /v1/sandboxes/{sandbox_id}/status 200': { '': words('sandbox_id status substatus reason updated_at') },
  'GET /v1/events 200': {
    '': ['events', 'limit'],
    'events[]': words('event_id type object_id sandbox_id created_at'),
  },
  'GET /v1/sandboxes/{sandbox_id}/events 200': {
    '': ['events', 'pagination'],
    'events[]': words('event_id sequence type status reason created_at'),
    pagination,
  },
  'GET /v1/sandboxes/{sandbox_id}/cost 200': {
    '': words(`sandbox_id currency amount cpu_seconds ram_gb_seconds sandbox_storage_gb_seconds traffic_gb cpu_seconds_used
               ram_gb_seconds_used`),
  },
  'GET /v1/admin/sandboxes/{sandbox_id}/workflow 200': { '': words('workflow_id web_ui_url') },
  'GET /v1/sandboxes/{sandbox_id}/metrics 200': {
    '': words('sandbox_id timestamp status uptime_seconds metrics error'),
    'metrics[]': words('timestamp cpu_count cpu_used_pct disk_total disk_used mem_total mem_used'),
  },
  'GET /v1/sandboxes/{sandbox_id}/metrics/chart 200': {
    '': words('sandbox_id status time_window chart_config metrics reference_limits'),
    time_window: words('start end step'),
    metrics: words('cpu_usage memory_usage disk_usage'),
    reference_limits: words('cpu_usage memory_usage disk_usage'),
  },
  'GET /v1/platform-regions 200': { '': ['platform_regions'], 'platform_regions[]': words('id name') },
  'POST /v1/sandboxes/{sandbox_id}/timeout 200': { '': words('timeout timeout_at remaining_time applies_to note') },
  'POST /v1/sandboxes/{sandbox_id}/connect 200': { '': sandbox },
  'POST /v1/sandboxes/{sandbox_id}/pause 200': { '': sandbox },
  'POST /v1/sandboxes/{sandbox_id}/restart 200': { '': sandbox },
  'POST /v1/sandboxes/{sandbox_id}/create-template 200': {
    '': words(`
      template_id name description default_cpu_count default_memory_mb visibility status registry_project
      registry_repository registry_tag base_template_id ports custom_command ready_command created_at message`),
    'ports[]': port,
  },
  'POST /v1/sandboxes/{sandbox_id}/resume 200': { '': [...new Set([...sandbox, 'message'])].sort() },
  'POST /v1/sandboxes/{sandbox_id}/terminate 202': { '': ending },
  'POST /v1/sandboxes/{sandbox_id}/terminate 200': { '': ending },
  'POST /v1/sandboxes/{sandbox_id}/switch-project 200': {},
  'GET /v1/sandboxes/{sandbox_id}/ports 200': {
    '': words('ports template_ports custom_ports'),
    'ports[]': port,
    'template_ports[]': port,
    'custom_ports[]': port,
  },
  'POST /v1/sandboxes/{sandbox_id}/ports 200': { '': ['port'], port },
  'DELETE /v1/sandboxes/{sandbox_id}/ports/{port} 200': {},
  'GET /v1/sandboxes/{sandbox_id}/webrtc-turn-credential 200': {
    '': words('ice_servers username credential turn_public_host turn_public_port'),
    'ice_servers[]': words('urls username credential'),
  },
  'GET /v1/sandboxes/stats 200': {
    '': words(`total_sandboxes running_sandboxes terminated_sandboxes failed_sandboxes avg_cpu_usage avg_memory_usage
               total_uptime_hours`),
  },
  'GET /v1/templates 200': { '': ['pagination', 'templates'], 'templates[]': templateItem, pagination },
  'GET /v1/templates/{template_id} 200': {
    '': [...templateItem, 'parent_template_id', 'root_template_id', 'template_document'].sort(),
    owner: words('user_id username display_name'),
  },
  'POST /v1/templates 201': { '': createdTemplate },
  'PUT /v1/templates/{template_id} 200': { '': ['template'], template: changedTemplate },
  'DELETE /v1/templates/{template_id} 200': {},
  'GET /v1/templates/{template_id}/document 200': templateDocument,
  'PUT /v1/templates/{template_id}/document 200': templateDocument,
  'DELETE /v1/templates/{template_id}/document 200': templateDocument,
  'PUT /v1/templates/{template_id}/status 200': { '': words('message template_id build_status') },
  'POST /v1/templates/{template_id}/validate 200': {
    '': words('message template_id build_status registry_image_url'),
  },
  'POST /v1/templates/{template_id}/share 200': sharing,
  'POST /v1/templates/{template_id}/unshare 200': sharing,
  'POST /v1/templates/import 202': {
    '': words('template_id name visibility message job_id status external_image_url registry_image_url created_at'),
  },
  'POST /v1/templates/{template_id}/import 202': {
    '': words('job_id template_id status external_image_url registry_image_url created_at message'),
  },
  'GET /v1/templates/{template_id}/import 200': { '': importJob },
  'DELETE /v1/templates/{template_id}/import 200': { '': words('job_id status message') },
  'GET /v1/templates/storage-usage 200': { '': words('used_gb limit_gb user_used_gb user_limit_gb percentage') },
  'GET /v1/import-jobs 200': { '': words('jobs pagination'), 'jobs[]': importJobItem, pagination },
  'GET /v1/import-jobs/{job_id} 200': { '': importJob },
  'DELETE /v1/import-jobs/{job_id} 200': { '': words('job_id status message') },
  'POST /v1/projects 201': { '': project },
  'GET /v1/projects 200': {
    '': ['pagination', 'projects'],
    'projects[]': project,
    'projects[].owner': person,
    'projects[].account_owner': person,
    pagination,
  },
  'GET /v1/projects/{project_id} 200': { '': project },
  'PUT /v1/projects/{project_id} 200': { '': project },
  'DELETE /v1/projects/{project_id} 200': { '': words('project_id deleted') },
  'GET /v1/projects/{project_id}/sandboxes 200': {
    '': ['pagination', 'sandboxes'],
    'sandboxes[]': slimSandbox,
    pagination,
  },
  'POST /v1/projects/{project_id}/sandboxes/{sandbox_id}/add 200': { '': move },
  'POST /v1/projects/{project_id}/sandboxes/{sandbox_id}/evict 200': { '': move },
  'POST /v1/api-keys 201': {
    '': words('key_id name description api_key e2b_api_key prefix is_active created_at max_active_api_keys owner'),
    owner: person,
  },
  'GET /v1/api-keys 200': {
    '': words('api_keys max_active_api_keys pagination'),
    'api_keys[]': [...key, 'owner'].sort(),
    'api_keys[].owner': person,
    pagination,
  },
  'GET /v1/api-keys/{key_id} 200': { '': [...key, 'owner'].sort() },
  'PUT /v1/api-keys/{key_id} 200': { '': key },
  'PUT /v1/api-keys/{key_id}/status 200': { '': words('message is_active') },
  'DELETE /v1/api-keys/{key_id} 200': {},
  'GET /v1/usage/summary 200': {
    '': words('summary time_period groups total_groups'),
    summary: usageSummary,
    time_period: words('start end'),
    'groups[]': groups,
  },
  'GET /v1/usage/analytics 200': {
    '': words('summary charts time_period groups total_groups'),
    summary: usageSummary,
    charts: words('sessions_over_time resource_utilization cost_breakdown'),
    'charts.sessions_over_time[]': words('date sessions'),
    'charts.resource_utilization[]': [...used, 'date'].sort(),
    'charts.cost_breakdown[]': words('usage_type resource_type cost percentage'),
    time_period: words('start end'),
    'groups[]': groups,
  },
  'GET /v1/usage/sessions 200': {
    '': words('sessions pagination'),
    'sessions[]':
      words(`session_id resource_type resource_id resource_name status start_time end_time duration cpu_count
                         memory_mb storage_gb estimated_cost final_cost`),
    pagination,
  },
  'GET /v1/usage/events 200': {
    '': words('events pagination'),
    'events[]':
      words(`event_id resource_type resource_id user_id account_id project_id usage_type usage_quantity usage_unit
                       resource_specs event_timestamp period_start period_end unit_price total_cost currency metadata tags
                       created_at`),
    'events[].resource_specs': words('cpu_count memory_mb'),
    pagination,
  },
  'GET /v1/usage/quotas 200': {
    '': words('quotas used account_quotas account_used'),
    quotas: allocation,
    used: words('period_start period_end cpu_seconds ram_gb_seconds sandbox_storage_gb_seconds traffic_gb'),
  },
  'GET /v1/usage/quota-requests 200': quotaRequests,
  'POST /v1/usage/quota-requests 201': { '': quotaRequest },
  'PUT /v1/usage/quota-requests/{request_id} 200': { '': quotaRequest },
  'DELETE /v1/usage/quota-requests/{request_id} 200': { '': quotaRequest },
  'GET /v1/user-management/quota-requests 200': quotaRequests,
  'POST /v1/user-management/quota-requests/{request_id}/review 200': { '': quotaRequest },
  'GET /v1/user-management/quota-allocations 200': {
    '': words('allocations pagination'),
    'allocations[]': allocation,
    pagination,
  },
  'POST /v1/user-management/quota-allocations 201': { '': allocation },
  'PUT /v1/user-management/quota-allocations/{allocation_id} 200': { '': allocation },
  'POST /v1/user-management/quota-allocations/{allocation_id}/revoke 200': { '': allocation },
  'DELETE /v1/user-management/quota-allocations/{allocation_id} 200': { '': words('allocation_id deleted') },
  'GET /v1/billing/balance 200': { '': words('account_id balance currency') },
  'GET /v1/billing/balance/changes 200': { '': words('changes pagination'), 'changes[]': balanceChange, pagination },
  'GET /v1/budgets 200': { '': budget, 'alert_thresholds[]': threshold },
  'POST /v1/budgets 201': { '': budget, 'alert_thresholds[]': threshold },
  'PUT /v1/budgets 200': { '': budget, 'alert_thresholds[]': threshold },
  'DELETE /v1/budgets 200': {},
  'GET /v1/budgets/status 200': { '': budgetStatus, 'alert_thresholds[]': threshold },
  'GET /v1/budgets/messages 200': { '': words('messages pagination'), 'messages[]': budgetMessage, pagination },
  'GET /v1/config/payment-processor 200': { '': words('publishable_key test_mode') },
  'GET /v1/payment/methods 200': {
    '': ['payment_methods'],
    'payment_methods[]': paymentMethod,
    'payment_methods[].billing_details': words('name email country'),
  },
  'GET /v1/payment/methods/status 200': { '': ['has_payment_methods'] },
  'POST /v1/payment/methods/setup-intent 200': { '': words('client_secret setup_intent_id') },
  'POST /v1/payment/methods/link 200': { '': words('url setup_intent_id expires_at') },
  'POST /v1/payment/methods/check-status 200': {
    '': words('processed method'),
    method: words('payment_method_id last4 brand is_verified'),
  },
  'POST /v1/payment/methods/set-default 200': { '': paymentMethod },
  'DELETE /v1/payment/methods/{id} 200': {},
  'GET /v1/payment/intents 200': {
    '': words('payment_intents pagination'),
    'payment_intents[]': paymentIntent,
    pagination,
  },
  'GET /v1/payment/subscription-payment-by-period 200': {
    '': words(
      'payment_id account_id payment_type payment_status payment_intent_id period_start period_end paid_at created_at updated_at',
    ),
  },
  'GET /v1/billing/invoices 200': {
    '': words('invoices pagination'),
    'invoices[]': invoice,
    'invoices[].line_items[]': invoiceLine,
    pagination,
  },
  'GET /v1/billing/invoices/{invoice_id} 200': { '': invoice, 'line_items[]': invoiceLine },
  'POST /v1/billing/invoice/generate 200': { '': invoice, 'line_items[]': invoiceLine },
  'GET /v1/billing/current 200': {
    '': words(`current_period currency is_billed current_cost projected_cost active_sessions completed_sessions subscription_fee cost_breakdown
               daily_trend`),
    current_period: words('start end'),
    subscription_fee: words('plan_name standard credit final'),
    'cost_breakdown[]': costs,
    'daily_trend[]': words('date cost'),
  },
  'GET /v1/billing/periods 200': {
    '': ['periods'],
    'periods[]':
      words(`period_id period_start period_end plan is_current type currency subscription_fee usage_cost total status
                        invoice_generated invoice_id`),
    'periods[].subscription_fee': words('standard credit final'),
    'periods[].usage_cost': words('accumulated projected'),
  },
  'GET /v1/billing/history 200': {
    '': words('period total_cost sessions breakdown daily_costs'),
    period: words('start end'),
    sessions: words('total active completed failed'),
    'breakdown[]': costs,
    'daily_costs[]': words('date cost'),
  },
  'GET /v1/user-management/account/subscription 200': { '': ['subscription'], subscription, 'subscription.plan': plan },
  'POST /v1/user-management/account/subscription 200': {
    '': words('subscription change_status'),
    subscription,
    'subscription.plan': plan,
  },
  'GET /v1/user-management/account/subscription/history 200': {
    '': words('history pagination'),
    'history[]': subscriptionChange,
    pagination,
  },
  'GET /v1/payment/intents/{id} 200': { '': paymentIntent },
  'POST /v1/payment/intents/{id}/refunds 201': {
    '': words('refund_id payment_intent_id account_id amount currency status failure_reason description created_at'),
  },
  'POST /v1/payment/processor-webhook 200': {},
  'POST /v1/accounts/{account_id}/credits 201': { '': balanceChange },
  'GET /v1/admin/accounts 200': { '': words('accounts pagination'), 'accounts[]': operatedAccount, pagination },
  'PUT /v1/admin/accounts/{account_id}/status 200': { '': operatedAccount },
  'GET /v1/admin/hosts 200': {
    '': ['hosts'],
    'hosts[]': host,
    'hosts[].capacity': words('cpu memory_mb disk_gb'),
    'hosts[].free': words('cpu memory_mb disk_mb'),
  },
  'POST /v1/admin/hosts/{host_id}/drain 200': { '': host },
  'DELETE /v1/admin/hosts/{host_id}/drain 200': { '': host },
  'GET /v1/admin/dead-letters 200': {
    '': words('dead_letters pagination'),
    'dead_letters[]': words('id workflow_type workflow_id signal attempts last_error created_at dead_at'),
    pagination,
  },
  'POST /v1/admin/dead-letters/{id}/retry 200': {},
  'GET /v1/admin/workers 200': {
    '': words('platform_version task_queues worker_versions'),
    'task_queues[]': words('work task_queue kind oldest_task_seconds pollers'),
    'worker_versions[]': words('build_id status pinned_workflows current_since'),
  },
  'GET /v1/admin/reconciliations/latest 200': {
    '': words(`reconciliation_id started_at ended_at reads_processor charges_from charges_until difference_count
               differences`),
    'differences[]': words('kind object_id account_id expected found'),
  },
  'GET /v1/notifications 200': {
    '': words('notifications pagination unread_count'),
    'notifications[]': notification,
    pagination,
  },
  'GET /v1/notifications/{notification_id} 200': {
    '': [...notification, 'related_entity_id', 'related_entity_type'].sort(),
  },
  'PATCH /v1/notifications/{notification_id}/read 200': { '': words('notification_id is_read') },
  'PATCH /v1/notifications/{notification_id}/unread 200': { '': words('notification_id is_read') },
  'PATCH /v1/notifications/read-all 200': { '': words('marked_count is_read') },
  'DELETE /v1/notifications/{notification_id} 200': { '': words('notification_id deleted') },
  'DELETE /v1/notifications 200': { '': ['deleted_count'] },
  'POST /v1/notifications/bulk-delete 200': { '': words('notification_ids deleted_count') },
  'PATCH /v1/notifications/bulk-read 200': { '': words('notification_ids marked_count is_read') },
  'PATCH /v1/notifications/bulk-unread 200': { '': words('notification_ids marked_count is_read') },
  'POST /v1/webhooks 201': { '': webhook },
  'GET /v1/webhooks 200': { '': words('webhooks pagination'), 'webhooks[]': webhook, pagination },
  'GET /v1/webhooks/event-types 200': {
    '': ['event_types'],
    'event_types[]': words('type description scope example'),
  },
  'GET /v1/webhooks/{endpoint_id} 200': { '': webhook },
  'PUT /v1/webhooks/{endpoint_id} 200': { '': webhook },
  'DELETE /v1/webhooks/{endpoint_id} 200': {},
  'POST /v1/webhooks/{endpoint_id}/roll-secret 200': { '': webhook },
  'POST /v1/webhooks/{endpoint_id}/test 202': { '': delivery, 'attempts[]': attempts },
  'GET /v1/webhooks/{endpoint_id}/deliveries 200': {
    '': words('deliveries limit'),
    'deliveries[]': delivery,
    'deliveries[].attempts[]': attempts,
  },
  'GET /v1/webhooks/{endpoint_id}/deliveries/{delivery_id} 200': { '': delivery, 'attempts[]': attempts },
  'POST /v1/webhooks/{endpoint_id}/deliveries/{delivery_id}/redeliver 202': { '': delivery, 'attempts[]': attempts },
  'POST /v1/auth/sign-in 200': { '': words('access_token expires_at') },
  'POST /v1/auth/sign-out 200': {},
  'POST /v1/auth/session 200': { '': ['expires_at'] },
  'GET /v1/auth/session 200': {
    '': words('user_id account_id email display_name role is_root_user expires_at'),
  },
  'DELETE /v1/auth/session 200': {},
  'GET /v1/auth/providers 200': { '': ['providers'], 'providers[]': words('id label start_path') },
  'POST /v1/auth/forgot-password 202': {},
  'POST /v1/auth/reset-password 200': {},
  'GET /v1/auth/oidc/{issuer}/callback 200': { '': words('access_token expires_at') },
  'POST /v1/user-management/change-password 200': {},
  'POST /v1/user-management/request-password-reset 200': {},
  'POST /v1/user-management/users/{user_id}/reset-password 200': { '': ['message'] },
  'GET /v1/user-management/users 200': { '': words('users pagination'), 'users[]': userItem, pagination },
  'POST /v1/user-management/users 201': { '': words('message user initial_password dedicated_signin_url'), user },
  'GET /v1/user-management/users/{user_id} 200': { '': user },
  'PUT /v1/user-management/users/{user_id} 200': {},
  'DELETE /v1/user-management/users/{user_id} 202': {
    '': words('message deleted_empty_projects deletion_status note'),
  },
  'GET /v1/audit-events 200': {
    '': words('events pagination'),
    'events[]': words(`event_id account_id actor_user_id actor_key_id actor_session_id address audited_request_id action
                       object_id before after created_at`),
    pagination,
  },
  'PUT /v1/users/me 200': {},
  'PUT /v1/user-management/account 200': { '': account },
  'POST /v1/user-management/account/email-change-request 200': {},
  'GET /v1/user-management/account/email-change-status 200': { '': words('has_pending_request status') },
  'POST /v1/user-management/account/clear-email-change-requests 200': {},
  'POST /v1/user-management/account/confirm-email-change 200': { '': words('status pending_email') },
  'GET /v1/users/me 200': {
    '': words(`user_id account_id email username display_name role status is_root_user email_verified description
               last_login created_at oauth_provider oauth_provider_id has_local_password avatar_url account`),
    account,
  },
  'GET /v1/user-management/plans 200': {
    '': ['plans'],
    'plans[]': plan,
  },
};

const batch = { '': words('total successful failed results'), 'results[]': words('sandbox_id status error code') };
for (const action of ['delete', 'terminate', 'pause', 'resume']) {
  contract[`POST /v1/sandboxes/batch-${action} 202`] = batch;
}

/** Fields of the replies without an envelope. */
const bare: Record<string, string[]> = {
  'POST /v1/sandboxes/{sandbox_id}/exec 201': words('stream_path started_at deadline'),
  'POST /v1/sandboxes/{sandbox_id}/exec 200': words('exit_code stdout stderr truncated duration_ms'),
  'GET /v1/sandboxes/{sandbox_id}/exec/active 200': words('active stream_path command cwd started_at deadline'),
  'DELETE /v1/sandboxes/{sandbox_id}/exec 200': ['cancelled'],
};
const eventStream = 'GET /v1/sandboxes/{sandbox_id}/exec/stream 200';
const liveEvents = 'GET /v1/events/stream 200';
const receipt = 'GET /v1/billing/invoices/{invoice_id}/receipt 200';
/** It redirects a browser and has no body. */
const redirect = 'GET /v1/auth/oidc/{issuer}/start 302';

/** Fields of each request body, as the specification lists them. */
const bodies: Record<string, string[]> = {
  'POST /v1/sandboxes': words(`
    name description template project_id cpu_count memory_mb storage_gb timeout env_vars metadata secure
    allow_internet_access object_storage object_storage_direct_mount s3fs_executable_path custom_ports locality
    auto_pause is_async`),
  'PUT /v1/sandboxes/{sandbox_id}': ['timeout'],
  'POST /v1/sandboxes/{sandbox_id}/timeout': ['timeout'],
  'POST /v1/sandboxes/{sandbox_id}/connect': ['timeout'],
  'POST /v1/sandboxes/{sandbox_id}/pause': ['is_async'],
  'POST /v1/sandboxes/{sandbox_id}/restart': words('best_effort_oss object_storage'),
  'POST /v1/sandboxes/{sandbox_id}/create-template': words(
    'name description visibility cpu_count memory_mb ports custom_command ready_command',
  ),
  'POST /v1/sandboxes/{sandbox_id}/resume': words('is_async best_effort_oss object_storage'),
  'POST /v1/sandboxes/{sandbox_id}/switch-project': ['project_id'],
  'POST /v1/sandboxes/{sandbox_id}/exec': words('command cwd env stdin wait'),
  'POST /v1/sandboxes/batch-delete': words('sandbox_ids force'),
  'POST /v1/sandboxes/batch-terminate': words('sandbox_ids force'),
  'POST /v1/sandboxes/batch-pause': ['sandbox_ids'],
  'POST /v1/sandboxes/batch-resume': ['sandbox_ids'],
  'POST /v1/sandboxes/{sandbox_id}/ports': words('port name protocol service_port is_protected'),
  'POST /v1/templates': words(`
    name description default_cpu_count default_memory_mb visibility template_source custom_image_source
    external_image_url external_registry_username external_registry_password registry_image_url registry_project
    registry_repository registry_tag metadata base_template_id ports reset_ports custom_command start_image_command
    ready_command`),
  'PUT /v1/templates/{template_id}': words(`
    name description default_cpu_count default_memory_mb external_image_url external_registry_username
    external_registry_password registry_image_url metadata ports custom_command start_image_command ready_command`),
  'PUT /v1/templates/{template_id}/document': ['template_document'],
  'PUT /v1/templates/{template_id}/status': words('status error_message push_logs registry_image_url'),
  'POST /v1/templates/{template_id}/validate': ['registry_image_url'],
  'POST /v1/templates/{template_id}/share': ['new_name'],
  'POST /v1/templates/import': words(`
    name external_image_url description external_registry_username external_registry_password default_cpu_count
    default_memory_mb visibility ports custom_command start_image_command ready_command`),
  'POST /v1/projects': words('name description is_default'),
  'PUT /v1/projects/{project_id}': words('name description is_default'),
  'POST /v1/api-keys': words('name description'),
  'PUT /v1/api-keys/{key_id}': words('name description'),
  'PUT /v1/api-keys/{key_id}/status': ['is_active'],
  'POST /v1/webhooks': words('url event_types description scope timeout_seconds max_retries secret'),
  'PUT /v1/webhooks/{endpoint_id}': words(
    'url event_types is_active description scope timeout_seconds max_retries secret',
  ),
  'POST /v1/webhooks/{endpoint_id}/roll-secret': ['secret'],
  'POST /v1/budgets': words('budget_amount alert_thresholds limit_type notification_emails'),
  'PUT /v1/budgets': words('budget_amount alert_thresholds limit_type notification_emails is_active'),
  'POST /v1/payment/methods/check-status': ['setup_intent_id'],
  'POST /v1/payment/methods/set-default': ['payment_method_id'],
  'POST /v1/user-management/account/subscription': ['plan_name'],
  'POST /v1/payment/intents/{id}/refunds': words('amount description'),
  'POST /v1/accounts/{account_id}/credits': words('action amount description'),
  'PUT /v1/admin/accounts/{account_id}/status': ['status'],
  'POST /v1/auth/sign-in': words('email password'),
  'POST /v1/auth/session': words('email password'),
  'POST /v1/auth/forgot-password': ['email'],
  'POST /v1/auth/reset-password': words('token new_password'),
  'PUT /v1/user-management/account': words('display_name description'),
  'POST /v1/user-management/account/email-change-request': words('current_email new_email'),
  'POST /v1/user-management/account/confirm-email-change': ['token'],
  'PUT /v1/users/me': words('display_name description role status is_root_user'),
  'POST /v1/user-management/users': words('email username role display_name status is_root_user description'),
  'PUT /v1/user-management/users/{user_id}': words('display_name description role status is_root_user'),
  'POST /v1/user-management/change-password': words('current_password new_password'),
  'POST /v1/notifications/bulk-delete': ['notification_ids'],
  'PATCH /v1/notifications/bulk-read': ['notification_ids'],
  'PATCH /v1/notifications/bulk-unread': ['notification_ids'],
  'POST /v1/usage/quota-requests': [...quota, 'reason'].sort(),
  'PUT /v1/usage/quota-requests/{request_id}': [...quota, 'reason'].sort(),
  'POST /v1/user-management/quota-requests/{request_id}/review': words('action review_notes'),
  'POST /v1/user-management/quota-allocations': [...quota, 'user_id'].sort(),
  'PUT /v1/user-management/quota-allocations/{allocation_id}': quota,
};

const paging = ['cursor', 'page', 'limit', 'page_size', 'offset', 'skip'];
/** Queries of lists that admins may request for other accounts. */
const pagingOfAccounts = [...paging, 'account_id'];
const queries: Record<string, string[]> = {
  'GET /v1/sandboxes': [
    ...pagingOfAccounts,
    ...words('status project_id owner_user_id search metadata sort_by sort_order'),
  ],
  'GET /v1/sandboxes/{sandbox_id}/events': paging,
  'GET /v1/sandboxes/{sandbox_id}/metrics': words('start end step'),
  'GET /v1/sandboxes/{sandbox_id}/metrics/chart': words('start end step'),
  'DELETE /v1/sandboxes/{sandbox_id}': ['force'],
  'POST /v1/sandboxes/{sandbox_id}/terminate': ['force'],
  'GET /v1/sandboxes/{sandbox_id}/exec/stream': ['token'],
  'GET /v1/auth/oidc/{issuer}/start': ['return_to'],
  'GET /v1/auth/oidc/{issuer}/callback': words('state code iss error error_description'),
  'GET /v1/templates': [...pagingOfAccounts, ...words('status visibility name usable')],
  'GET /v1/templates/{template_id}/document': ['download'],
  'GET /v1/import-jobs': [...pagingOfAccounts, ...words('status template_id')],
  'GET /v1/projects': [...pagingOfAccounts, 'owner_user_id'],
  'GET /v1/projects/{project_id}/sandboxes': [...paging, 'status'],
  'GET /v1/payment/intents': [...pagingOfAccounts, 'type'],
  'GET /v1/billing/balance/changes': pagingOfAccounts,
  'GET /v1/budgets/messages': pagingOfAccounts,
  'GET /v1/billing/invoices': pagingOfAccounts,
  'GET /v1/billing/invoices/{invoice_id}/receipt': ['format'],
  'GET /v1/billing/history': words('start end'),
  'GET /v1/user-management/account/subscription/history': pagingOfAccounts,
  'GET /v1/events': words('account_id limit'),
  'GET /v1/events/stream': ['account_id'],
  'GET /v1/webhooks': pagingOfAccounts,
  'GET /v1/webhooks/{endpoint_id}/deliveries': ['limit'],
  'GET /v1/audit-events': [...pagingOfAccounts, ...words('start end actor_user_id object_id action')],
  'GET /v1/user-management/users': [...pagingOfAccounts, 'status'],
  'GET /v1/admin/accounts': [...paging, ...words('search status')],
  'GET /v1/admin/dead-letters': paging,
  'GET /v1/notifications': [...paging, 'read', 'type'],
  'GET /v1/usage/quota-requests': [...pagingOfAccounts, 'status'],
  'GET /v1/usage/summary': words('start end account_id project_id group_by'),
  'GET /v1/usage/analytics': words('start end account_id project_id group_by'),
  'GET /v1/usage/sessions': [...pagingOfAccounts, ...words('start end project_id')],
  'GET /v1/usage/events': [...pagingOfAccounts, ...words('start end project_id resource_type usage_type')],
  'GET /v1/user-management/quota-requests': [...pagingOfAccounts, 'status'],
  'GET /v1/user-management/quota-allocations': [...pagingOfAccounts, 'include_inactive'],
  'GET /v1/api-keys': [...pagingOfAccounts, ...words('user_id status search sort_by sort_order')],
};

function operations(): { name: string; template: string; operation: Json }[] {
  return Object.entries<Json>(document.paths).flatMap(([template, item]) =>
    Object.entries<Json>(item).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${template}`,
      template,
      operation,
    })),
  );
}

/** All alternatives of a schema, with references resolved. */
function alternatives(schema: Json): Json[] {
  if (schema.$ref) return alternatives(document.components.schemas[schema.$ref.split('/').at(-1)]);
  return (schema.anyOf ?? schema.oneOf ?? schema.allOf ?? [schema]).flatMap((each: Json) =>
    each === schema ? [each] : alternatives(each),
  );
}

/** The fields at a path such as `sandboxes[].owner`. */
function fieldsAt(schema: Json, path: string): string[] {
  let here = alternatives(schema);
  for (const step of path.split('.').filter(Boolean)) {
    const name = step.replace('[]', '');
    here = here.flatMap((each) => (each.properties?.[name] ? alternatives(each.properties[name]) : []));
    if (step.endsWith('[]')) here = here.flatMap((each) => (each.items ? alternatives(each.items) : []));
  }
  return [...new Set(here.flatMap((each) => Object.keys(each.properties ?? {})))].sort();
}

test('it is OpenAPI 3.1, and each of its schemas is a valid JSON Schema', () => {
  expect(document.openapi).toMatch(/^3\.1\.\d$/);
  expect(document.info).toMatchObject({ title: expect.any(String), version: expect.any(String) });
  const ajv = new Ajv2020({ strict: false, validateSchema: true, validateFormats: true });
  addFormats.default(ajv);
  ajv.addSchema(document, 'openapi');
  const pointers: string[] = [];
  const walk = (part: Json, pointer: string) => {
    if (part === null || typeof part !== 'object') return;
    for (const [name, value] of Object.entries<Json>(part)) {
      const below = `${pointer}/${encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))}`;
      if (name === 'schema') pointers.push(below);
      else walk(value, below);
    }
  };
  walk(document.paths, '/paths');
  expect(pointers.length).toBeGreaterThan(200);
  for (const pointer of pointers) expect(() => ajv.compile({ $ref: `openapi#${pointer}` })).not.toThrow();
});

test('it has exactly the routes of the contract, and the three for operation', () => {
  const all = [...Object.keys(contract), ...Object.keys(bare), eventStream, liveEvents, redirect, receipt];
  const known = new Set(all.map((name) => name.split(' ').slice(0, 2).join(' ')));
  expect(
    operations()
      .map(({ name }) => name)
      .sort(),
  ).toEqual([...known, 'GET /healthz', 'GET /readyz', 'GET /metrics'].sort());
});

test.each(Object.entries(contract))('%s returns exactly the fields of the contract', (name, shape) => {
  const [method, template, status] = name.split(' ') as [string, string, string];
  const response = document.paths[template][method.toLowerCase()].responses[status];
  const schema = response.content['application/json'].schema;
  expect(schema.properties.success).toMatchObject({ enum: [true] });
  expect(schema.required).toEqual(expect.arrayContaining(['success', 'timestamp']));
  if (Object.keys(shape).length === 0) {
    expect(schema.properties.data).toBeUndefined();
    expect(schema.required).toContain('message');
    return;
  }
  expect(schema.required).toContain('data');
  for (const [path, fields] of Object.entries(shape)) {
    expect([path, fieldsAt(schema.properties.data, path)]).toEqual([path, fields]);
  }
});

test.each(Object.entries(bare))('%s returns the fields of the contract, without an envelope', (name, fields) => {
  const [method, template, status] = name.split(' ') as [string, string, string];
  const { schema } = document.paths[template][method.toLowerCase()].responses[status].content['application/json'];
  expect(fieldsAt(schema, '')).toEqual(fields);
});

test('it has each type of event as a webhook, with an example that its schema accepts', () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: true });
  addFormats.default(ajv);
  expect(Object.keys(document.webhooks)).toEqual(eventTypes.map(({ type }) => type));
  for (const [type, { post }] of Object.entries<Json>(document.webhooks)) {
    const { schema, example } = post.requestBody.content['application/json'];
    expect([type, example.type, ajv.validate(schema, example), ajv.errors]).toEqual([type, type, true, null]);
    expect(post.parameters.map(({ name }: Json) => name)).toEqual([
      'webhook-id',
      'webhook-timestamp',
      'webhook-signature',
    ]);
  }
});

test('the event streams are documented as streams', () => {
  const { 200: live } = document.paths[liveEvents.split(' ')[1]!].get.responses;
  expect(Object.keys(live.content)).toEqual(['text/event-stream']);
  const { responses } = document.paths[eventStream.split(' ')[1]!].get;
  expect([Object.keys(responses[200].content), responses[204].content]).toEqual([['text/event-stream'], undefined]);
});

test('the receipt is a PDF or a page', () => {
  const { content } = document.paths[receipt.split(' ')[1]!].get.responses[200];
  expect(Object.keys(content)).toEqual(['text/html', 'application/pdf']);
});

test('the start of a sign-in at an identity provider is only a redirect', () => {
  const { responses } = document.paths[redirect.split(' ')[1]!].get;
  expect(Object.keys(responses).filter((status) => Number(status) < 400)).toEqual(['302']);
});

test('every field of the contract is required, except the optional ones', () => {
  const optional = new Set([
    'network_proxy',
    'webrtc_turn',
    'host_port',
    'error',
    'owner',
    'account_owner',
    'region',
    'endpoint',
    'short_lived',
    'account_id',
    'api_key',
    'e2b_api_key',
    'pending_email',
    'total_is_capped',
    'message',
    'details',
    'data',
    'error',
    'code',
  ]);
  const walk = (part: Json): void => {
    if (part === null || typeof part !== 'object') return;
    if (part.type === 'object' && part.properties) {
      for (const name of Object.keys(part.properties)) {
        if (!optional.has(name)) expect([name, part.required?.includes(name)]).toEqual([name, true]);
      }
      expect(part.additionalProperties).toBe(false);
    }
    for (const value of Object.values(part)) walk(value);
  };
  for (const { operation } of operations()) {
    for (const response of Object.values<Json>(operation.responses)) walk(response.content);
  }
  walk(document.components.schemas);
});

test('bodies and queries are the same as in the contract', () => {
  const seen = { bodies: {} as Record<string, string[]>, queries: {} as Record<string, string[]> };
  for (const { name, operation } of operations()) {
    const body = operation.requestBody?.content['application/json']?.schema;
    if (body) seen.bodies[name] = fieldsAt(body, '');
    const query = (operation.parameters ?? []).filter((each: Json) => each.in === 'query');
    if (query.length > 0) seen.queries[name] = query.map((each: Json) => each.name).sort();
  }
  expect(seen.bodies).toEqual(bodies);
  expect(seen.queries).toEqual(
    Object.fromEntries(Object.entries(queries).map(([name, fields]) => [name, [...fields].sort()])),
  );
});

test('every operation has a unique id, a summary, limits, and its errors by status', () => {
  const ids = operations().map(({ operation }) => operation.operationId);
  expect(new Set(ids).size).toBe(ids.length);
  for (const { name, template, operation } of operations()) {
    expect([name, operation.operationId]).toEqual([name, expect.stringMatching(/^[a-z][A-Za-z]+$/)]);
    expect([name, operation.summary]).toEqual([name, expect.any(String)]);
    for (const parameter of operation.parameters ?? []) {
      const bounded = JSON.stringify(parameter.schema).match(/"(maximum|maxLength|enum|pattern)"/);
      expect([name, parameter.name, parameter.in === 'path' || bounded !== null]).toEqual([name, parameter.name, true]);
    }
    if (!template.startsWith('/v1/')) continue;
    for (const status of ['400', '401', '429', '500', '503'])
      expect(Object.keys(operation.responses)).toContain(status);
    for (const [status, response] of Object.entries<Json>(operation.responses)) {
      expect(response.description).not.toBe('Default Response');
      if (Number(status) < 400) continue;
      const codes: string[] = response.content['application/json'].schema.properties.code.enum;
      for (const code of codes)
        expect([code, errorStatus[code as keyof typeof errorStatus]]).toEqual([code, Number(status)]);
    }
  }
});

test('every operation has a description, with who may call it and its errors', () => {
  const bare = operations().filter(({ operation }) => !operation.description);
  const missing = 'routes without `description` in their `schema`';
  expect({ [missing]: bare.map(({ name }) => name) }).toEqual({ [missing]: [] });
  for (const { operation } of operations()) {
    const { description, summary } = operation;
    expect(description).toContain('**Callers:** ');
    expect(description.split('\n')[0]).not.toContain(summary);
  }
  expect(document.paths['/v1/projects/{project_id}'].delete.description.split('\n\n').slice(1)).toEqual([
    '**Callers:** every user, on their own objects; root users on all objects of the account, and operators on any account.',
    '**Errors:** 400 `invalid_json`, `project_not_empty`, `only_default_project`; 403 `account_suspended`; 404 `not_found`; ' +
      '413 `payload_too_large`; 415 `unsupported_media_type`.',
  ]);
});

test('every operation shows a real reply, which its schema accepts', () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: true, validateSchema: false });
  addFormats.default(ajv);
  const { components } = document;
  const without: string[] = [];
  for (const { name, operation } of operations()) {
    const replies = Object.entries<Json>(operation.responses).filter(([status]) => Number(status) < 400);
    const contents = replies.flatMap(([, { content }]) => Object.values<Json>(content ?? {}));
    const shown = contents.filter(({ example }) => example !== undefined);
    if (contents.length > 0 && shown.length === 0) without.push(operation.operationId);
    for (const { schema, example } of shown) {
      if (typeof example === 'string') continue;
      expect([name, ajv.validate({ ...schema, components }, example), ajv.errors]).toEqual([name, true, null]);
    }
  }
  const missing =
    'operations without a file in docs/reference/replies: add a step to test/docs/reference.test.ts, which says how to run it';
  expect({ [missing]: without }).toEqual({ [missing]: [] });
});

test('the example of each id has the prefix that replies have', () => {
  const prefix = (value: unknown) => (typeof value === 'string' ? /^[a-z]{2,4}(?=[-_])/.exec(value)?.[0] : undefined);
  const wrong: string[] = [];
  let ids = 0;
  const compare = (schema: Json, value: Json, at: string): void => {
    if (value === null || value === undefined) return;
    for (const each of alternatives(schema)) {
      if (Array.isArray(value)) for (const item of value) compare(each.items ?? {}, item, at);
      else if (typeof value === 'object') {
        for (const [name, below] of Object.entries<Json>(value)) {
          const field = each.properties?.[name];
          if (!field) continue;
          compare(field, below, `${at} ${name}`);
          // A project of the registry is a user, an account or one that the operator has made; a resource has many kinds.
          if (!/(^|_)id$/.test(name) || ['resource_id', 'period_id', 'related_entity_id'].includes(name)) continue;
          const examples = [field, ...alternatives(field)].flatMap(({ examples = [] }) => examples);
          if (!prefix(below)) continue;
          ids += 1;
          if (examples.some((example) => prefix(example) !== prefix(below)))
            wrong.push(`${at} ${name}: ${examples} ${below}`);
        }
      }
    }
  };
  for (const { operation } of operations()) {
    for (const { content } of Object.values<Json>(operation.responses)) {
      for (const { schema, example } of Object.values<Json>(content ?? {}))
        compare(schema, example, operation.operationId);
    }
    for (const { name, example, description = '', ...parameter } of operation.parameters ?? []) {
      const documented = /`([a-z]{3}-)…`/.exec(description)?.[1];
      if (documented && !String(example).startsWith(documented))
        wrong.push(`${operation.operationId} ${name}: ${example}`);
      if (parameter.in === 'path' && example === undefined)
        wrong.push(`${operation.operationId} ${name} has no example`);
    }
  }
  expect(wrong).toEqual([]);
  expect(ids).toBeGreaterThan(100);
});

test('a body is required exactly where its fields are', async () => {
  const seen = operations().filter(({ operation }) => operation.requestBody);
  expect(seen.length).toBeGreaterThan(15);
  for (const { name, operation } of seen) {
    const { required, content } = operation.requestBody;
    const fields = alternatives(content['application/json'].schema).some((each) => each.required?.length > 0);
    expect([name, required]).toEqual([name, fields]);
  }
  expect(document.paths['/v1/sandboxes'].post.requestBody.required).toBe(false);
});

test('every body has an example that its schema accepts, and that of create makes a sandbox as it is', async () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: true });
  addFormats.default(ajv);
  ajv.addSchema(document, 'openapi');
  for (const { name, template, operation } of operations()) {
    if (!operation.requestBody) continue;
    const { example, schema } = operation.requestBody.content['application/json'];
    expect([name, example]).toEqual([name, expect.any(Object)]);
    expect([name, ajv.validate(schema, example), ajv.errors]).toEqual([name, true, null]);
    // The server agrees: if it refuses an example, the reason is not the body.
    const url = template.replaceAll(/\{(\w+)\}/g, (_, parameter: string) => `unknown-${parameter}`);
    const reply = await api.send(api.root, name.split(' ')[0]!, url, example);
    const unknown = ['invalid_credentials', 'invalid_link', 'no_local_password', 'email_mismatch'].includes(
      reply.body.code,
    );
    expect([name, [200, 201, 202, 404]]).toEqual([name, expect.arrayContaining([unknown ? 404 : reply.status])]);
  }
  const { example } = document.paths['/v1/sandboxes'].post.requestBody.content['application/json'];
  const made = await api.send(api.root, 'POST', '/v1/sandboxes', example);
  expect([made.status, made.body.data.name]).toEqual([201, example.name]);
});

test('the server accepts the example of each field of a body, in the example of the body', async () => {
  const refused: Json[] = [];
  let fields = 0;
  for (const { name, template, operation } of operations()) {
    const { example, schema } = operation.requestBody?.content['application/json'] ?? {};
    for (const each of schema ? alternatives(schema) : []) {
      for (const [field, { examples = [] }] of Object.entries<Json>(each.properties ?? {})) {
        for (const value of examples) {
          fields += 1;
          const url = template.replaceAll(/\{(\w+)\}/g, (_, parameter: string) => `unknown-${parameter}`);
          const { status, body } = await api.send(api.root, name.split(' ')[0]!, url, { ...example, [field]: value });
          // `is for …`: the field needs another one, which the example of the body does not have.
          const about = (body?.details ?? []).filter(
            ({ path, reason }: Json) => String(path).split('.')[0] === field && !reason.startsWith('is for '),
          );
          if (body?.code === 'too_many_requests' || (status === 400 && about.length > 0))
            refused.push([name, field, value, status, about]);
        }
      }
    }
  }
  expect(refused).toEqual([]);
  expect(fields).toBeGreaterThan(50);
});

test('every text has an example, every example is valid, and every number has a sensible limit', () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: true });
  addFormats.default(ajv);
  ajv.addSchema(document, 'openapi');
  const without = new Set<string>();
  let examples = 0;
  const walk = (part: Json) => {
    if (part === null || typeof part !== 'object') return;
    for (const [name, schema] of Object.entries<Json>(part.properties ?? {})) {
      const kinds = [schema, ...(schema.anyOf ?? [])];
      const isPlainText = kinds.some((each) => each.type === 'string' && !each.enum && !each.format);
      if (!schema.examples && isPlainText && !kinds.some((each) => each.const !== undefined)) without.add(name);
      for (const example of schema.examples ?? []) {
        examples += 1;
        expect([name, example, ajv.validate(schema, example), ajv.errors]).toEqual([name, example, true, null]);
      }
    }
    for (const value of Object.values(part)) walk(value);
  };
  walk(document);
  expect([...without]).toEqual([]);
  expect(examples).toBeGreaterThan(200);
  expect(JSON.stringify(document)).not.toContain(String(Number.MAX_SAFE_INTEGER));
});

test('every status of a reply or a query lists its values', () => {
  const walk = (part: Json) => {
    if (part === null || typeof part !== 'object') return;
    for (const name of ['status', 'substatus']) {
      const schema = part.properties?.[name];
      if (schema) expect(JSON.stringify(schema)).toMatch(/"(enum|const)"/);
    }
    for (const value of Object.values(part)) walk(value);
  };
  walk(document);
  for (const { name, operation } of operations()) {
    const status = (operation.parameters ?? []).find((each: Json) => each.in === 'query' && each.name === 'status');
    if (status) expect([name, status.schema.enum ?? status.schema.pattern]).toEqual([name, expect.anything()]);
  }
});

test('every pattern is valid in other languages, too', () => {
  const walk = (part: Json) => {
    if (part === null || typeof part !== 'object') return;
    if (typeof part.pattern === 'string') expect(part.pattern).not.toMatch(/\\p|\\u|\\0|\(\?/);
    for (const value of Object.values(part)) walk(value);
  };
  walk(document);
});

test('operations that create or restart accept an Idempotency-Key', () => {
  for (const { name, operation } of operations()) {
    const takes = (operation.parameters ?? []).some(
      (each: Json) => each.in === 'header' && each.name === 'idempotency-key',
    );
    expect([name, takes]).toEqual([
      name,
      /^POST \/v1\/(sandboxes|templates|templates\/import|templates\/\{template_id\}\/import|projects|api-keys|budgets|usage\/quota-requests|user-management\/(quota-allocations|users|account\/subscription|account\/email-change-request)|webhooks|webhooks\/\{endpoint_id\}\/(test|roll-secret|deliveries\/\{delivery_id\}\/redeliver)|payment\/methods\/(setup-intent|link)|sandboxes\/\{sandbox_id\}\/(ports|exec|restart|create-template)|accounts\/\{account_id\}\/credits|payment\/intents\/\{id\}\/refunds)$/.test(
        name,
      ),
    ]);
  }
});
