import { z } from 'zod';
import { lifecycleOutcomes, sandboxReasons, sandboxStatuses } from '../../../domain/sandboxes/state.ts';
import { givenId, personSchema, time } from '../../schemas/fields.ts';
import { portSchema } from '../../schemas/port.ts';

/** The path of every route on one sandbox. A text that is not an id gives 404 and not a validation error. */
export const sandboxPath = z.object({ sandbox_id: givenId('sandbox').describe('`sbx-…`') });

export const sandboxStatus = z.enum(sandboxStatuses);
export const sandboxSubstatus = z.enum([
  'allocating',
  'deploying',
  'initializing',
  'waiting_ready',
  'cleaning_resources',
  'cleaning_data',
]);
export const sandboxReason = z.enum(sandboxReasons);

/** A mount of object storage, without its credentials. */
const mountSchema = z
  .object({
    slot: z.int().min(0),
    state: z.enum(['active', 'disabled', 'free']),
    uri: z.string(),
    mount_point: z.string(),
    region: z.string().optional(),
    endpoint: z.string().optional(),
    short_lived: z.boolean().optional(),
  })
  .meta({ id: 'Mount' });

const failureSchema = z
  .object({
    message: z.string(),
    exit_code: z.int().nullable(),
    out_of_memory: z.boolean(),
    command_output: z.string().describe("The last 8 KiB of the command's output"),
  })
  .meta({ id: 'SandboxFailure' });

const resourcesSchema = z
  .object({
    cpu: z.int().describe('Cores'),
    memory: z.int().describe('MB'),
    storage: z.int().describe('GB'),
    bandwidth: z.int().nullable().describe('Mbit/s to the internet, and the same rate from it; null: not limited'),
  })
  .meta({ id: 'SandboxResources' });

const strings = z.record(z.string(), z.string());

/** Every field of a sandbox in any reply. Each reply selects its own fields. */
const allFields = z.object({
  sandbox_id: z.string(),
  name: z.string(),
  description: z.string(),
  status: sandboxStatus,
  substatus: sandboxSubstatus.nullable(),
  reason: sandboxReason.nullable().describe('The reason of this status'),
  template_id: z.string(),
  template_name: z.string().describe('The name of the template when the sandbox was made'),
  template_exists: z.boolean(),
  project_id: z.string(),
  project_name: z.string(),
  owner: personSchema,
  account_owner: personSchema.nullable().describe("The account's root user"),
  owner_user_id: z.string(),
  region: z.string(),
  visibility: z.literal('private').describe('Only its owner and the account root see it'),
  user_account_id: z.string().describe("Legacy: the owner's account"),
  userName: z.string().describe("Legacy: the owner's display name"),
  userEmail: z.string().describe("Legacy: the owner's e-mail"),

  cpu_count: z.int(),
  memory_mb: z.int(),
  storage_gb: z.int(),
  resources: resourcesSchema,
  timeout: z.int().describe('Seconds'),
  auto_pause: z.boolean(),
  secure: z.boolean(),
  allow_internet_access: z.boolean(),
  sandbox_domain: z.string(),
  sandbox_domain_internal: z.string().nullable().describe("The agent's address and port inside the platform's network"),
  web_terminal_available: z.boolean(),
  web_files_available: z.boolean(),
  envd_access_token: z.string(),

  metadata: strings,
  env_vars: strings,
  object_storage: z.array(mountSchema).nullable(),
  object_storage_single: mountSchema.nullable(),
  object_storage_direct_mount: z.boolean(),
  object_storage_s3fs_path: z.string(),
  ports: z.array(portSchema),
  template_ports: z.array(portSchema),
  custom_ports: z.array(portSchema),
  template_custom_command: z.string().nullable(),
  template_ready_command: z.string().nullable(),
  template_source: z.enum(['platform_family', 'custom']),

  created_at: time(),
  updated_at: time(),
  started_at: time().nullable(),
  stopped_at: time().nullable(),
  ended_at: time().nullable(),
  timeout_at: time().nullable(),
  remaining_seconds: z.int().min(0).nullable(),
  paused_at: time().nullable(),
  pausing_at: time().nullable(),
  resumed_at: time().nullable(),
  uptime: z.int().min(0).describe('Seconds it has run, without pauses'),
  total_paused_seconds: z.int().min(0),
  total_running_seconds: z.int().min(0),
  actual_total_paused_seconds: z.int().min(0).describe('Finished phases only'),
  actual_total_running_seconds: z.int().min(0).describe('Finished phases only'),
  lifecycle_outcome: z.enum(lifecycleOutcomes).nullable(),
  last_accessed_at: time().nullable().describe('To the minute'),

  persistence_days: z.int().nullable(),
  persistence_expires_at: time().nullable(),
  persistence_days_remaining: z.int().min(0).nullable(),
  network_proxy: z
    .object({
      proxy_url: z.string(),
      proxy_configs: z.object({ host: z.string(), port: z.int(), username: z.string(), password: z.string() }),
    })
    .optional(),
  webrtc_turn: z
    .object({
      turn_public_host: z.string(),
      turn_public_port: z.int(),
      ports: z.array(z.int()).describe('Its WEBRTC ports'),
    })
    .optional()
    .describe('The TURN server for peers of its WEBRTC ports; another route returns their credential'),
  failure: failureSchema.nullable().describe('Details of a failure; kept after its data is removed'),
});

export type SandboxFields = z.output<typeof allFields>;

/** The full object: get, connect, pause and resume. */
export const sandboxSchema = allFields.meta({ id: 'Sandbox' });

/** The reply of create. */
export const createdSandboxSchema = allFields
  .pick({
    sandbox_id: true,
    name: true,
    description: true,
    template_id: true,
    template_name: true,
    owner_user_id: true,
    project_id: true,
    cpu_count: true,
    memory_mb: true,
    storage_gb: true,
    timeout: true,
    auto_pause: true,
    secure: true,
    allow_internet_access: true,
    metadata: true,
    env_vars: true,
    object_storage: true,
    object_storage_single: true,
    object_storage_direct_mount: true,
    object_storage_s3fs_path: true,
    ports: true,
    template_ports: true,
    custom_ports: true,
    template_custom_command: true,
    template_ready_command: true,
    status: true,
    substatus: true,
    reason: true,
    created_at: true,
    updated_at: true,
    started_at: true,
    timeout_at: true,
    uptime: true,
    sandbox_domain: true,
    sandbox_domain_internal: true,
    web_terminal_available: true,
    web_files_available: true,
    envd_access_token: true,
    persistence_days: true,
    persistence_expires_at: true,
    persistence_days_remaining: true,
    network_proxy: true,
    failure: true,
  })
  .meta({ id: 'CreatedSandbox' });

/** An item of the list. Account root callers also get `owner`. */
export const sandboxSummarySchema = allFields
  .pick({
    sandbox_id: true,
    name: true,
    description: true,
    template_id: true,
    template_name: true,
    template_exists: true,
    owner_user_id: true,
    project_id: true,
    project_name: true,
    cpu_count: true,
    memory_mb: true,
    storage_gb: true,
    timeout: true,
    timeout_at: true,
    remaining_seconds: true,
    auto_pause: true,
    secure: true,
    allow_internet_access: true,
    metadata: true,
    env_vars: true,
    object_storage: true,
    object_storage_single: true,
    object_storage_direct_mount: true,
    object_storage_s3fs_path: true,
    ports: true,
    template_ports: true,
    custom_ports: true,
    template_custom_command: true,
    template_ready_command: true,
    template_source: true,
    status: true,
    substatus: true,
    reason: true,
    started_at: true,
    stopped_at: true,
    created_at: true,
    updated_at: true,
    sandbox_domain: true,
    sandbox_domain_internal: true,
    web_terminal_available: true,
    web_files_available: true,
    paused_at: true,
    pausing_at: true,
    resumed_at: true,
    total_paused_seconds: true,
    lifecycle_outcome: true,
    persistence_days: true,
    persistence_expires_at: true,
    persistence_days_remaining: true,
    uptime: true,
    network_proxy: true,
  })
  .extend({ owner: personSchema.optional() })
  .meta({ id: 'SandboxSummary' });

/** An item of a project's list of sandboxes. */
export const slimSandboxSchema = allFields
  .pick({
    name: true,
    description: true,
    template_id: true,
    owner_user_id: true,
    project_id: true,
    cpu_count: true,
    memory_mb: true,
    storage_gb: true,
    status: true,
    started_at: true,
    stopped_at: true,
    created_at: true,
    updated_at: true,
  })
  .extend({ id: z.string().meta({ examples: ['sbx-5k2vq8m3w7xj4r6t9ypz1hdn'] }) })
  .meta({ id: 'ProjectSandbox' });
