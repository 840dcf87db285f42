import type { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { findSecretKeyNumber } from '../../../db/sandboxes/sandbox-status.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { idempotencyHeaders } from '../../plugins/idempotency.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../schemas/replies.ts';
import { createBody } from './bodies.ts';
import { createAndStart } from './new-sandbox.ts';
import { allFields, fullSandbox, networkProxy } from './reply.ts';

/** The reply of create. */
const createdSandboxSchema = allFields
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

/** `POST /v1/sandboxes`. */
export function createSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes',
    config: {
      access: anyUser('by_role'),
      // The largest variables, metadata and mounts, with every character escaped.
      bodyBytes: 1024 * 1024,
      idempotency: {
        makes: 'sandbox',
        secrets: ['envd_access_token', 'network_proxy'],
        restore: async (data) => {
          const sandboxId = data.sandbox_id as SandboxId;
          const secretKeyNumber = await findSecretKeyNumber(deps.orm.em, sandboxId);
          return {
            ...data,
            // Without a row the sandbox is long gone, and so is its token.
            ...(secretKeyNumber && { envd_access_token: deps.deriveAgentToken(sandboxId, secretKeyNumber) }),
            ...networkProxy(data.allow_internet_access === true, deps.settings),
          };
        },
      },
    },
    schema: {
      operationId: 'createSandbox',
      tags: ['Sandboxes'],
      summary: 'Create a sandbox; replies when it runs or has failed, or immediately with is_async',
      description:
        'All fields are optional. The reply is 201 even if the sandbox has `failed`: check `status` and ' +
        '`failure`. To call the agent in the sandbox, use `sandbox_domain` and `envd_access_token` of the reply.',
      headers: idempotencyHeaders,
      body: createBody,
      response: {
        201: envelope(createdSandboxSchema, 'The sandbox'),
        202: envelope(createdSandboxSchema, 'It could not be started yet, and starts as soon as the platform can'),
        ...failures(
          ...([ofMutations, ofIdempotency, 'invalid_name', 'invalid_region', 'plan_limit_exceeded'] as const),
          ...(['template_not_found', 'template_not_usable', 'not_found', 'concurrent_limit_reached'] as const),
          ...([
            'direct_mount_not_possible',
            'quota_used_up',
            'subscription_past_due',
            'budget_restricted',
            'no_capacity',
            'start_queue_full',
            'locality_constraint_failed',
          ] as const),
        ),
      },
    },
    handler: async (request, reply) => {
      const { is_async: isAsync } = request.body;
      const { sandboxId, awaitsImage } = await createAndStart(deps, request, request.body);
      const made = await fullSandbox(deps, request, sandboxId);
      if (!isAsync && !awaitsImage && (made.status === 'created' || made.status === 'starting')) {
        return reply
          .code(202)
          .send(success(made, 'The sandbox could not be started yet; it starts without another request'));
      }
      return reply.code(201).send(success(made, awaitsImage ? aboutImage(made.status) : undefined));
    },
  });
}

/** The message for the caller if the sandbox was admitted before its image exists. */
function aboutImage(status: Sandbox['status']): string {
  if (status === 'running') return 'The image of the template had to be built first';
  if (status === 'created' || status === 'starting') {
    return 'The image of the template is being built; the sandbox starts when it is ready';
  }
  return 'The image of the template was not ready yet';
}
