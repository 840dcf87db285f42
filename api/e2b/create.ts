import { z } from 'zod';
import { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import { e2bPrefix } from '../../domain/e2b-address.ts';
import { AppError } from '../../domain/errors.ts';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxReason } from '../../domain/sandboxes/state.ts';
import { anyUser } from '../access.ts';
import type { Api, ApiDependencies } from '../dependencies.ts';
import { idempotencyHeaders } from '../plugins/idempotency.ts';
import { createBody, envVars, metadata } from '../routes/sandboxes/bodies.ts';
import { createAndStart, type WantedSandbox } from '../routes/sandboxes/new-sandbox.ts';
import { readSandboxRow } from '../routes/sandboxes/reply.ts';
import { withDefault } from '../schemas/fields.ts';
import { e2bTimeout, isEmpty, noMemory, noNetworkRules, unsupported } from './fields.ts';
import { e2bState, templateNamed } from './names.ts';
import { connectedSandbox, presentConnected, presentTokens } from './sandbox-reply.ts';

/** Sandboxes are on the internet, and their ports public, unless the caller says otherwise. */
const isUsualNetwork = (value: unknown) => {
  const { allowPublicTraffic, ...rules } = value as Record<string, unknown>;
  return allowPublicTraffic !== false && isEmpty(rules);
};

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const newSandbox = (defaultSeconds: number) =>
  z.object({
    templateID: z.string().min(1).max(128),
    timeout: withDefault(e2bTimeout(), defaultSeconds),
    metadata: withDefault(metadata, {}),
    envVars: withDefault(envVars, {}),
    autoPause: withDefault(z.boolean(), false),
    allow_internet_access: withDefault(z.boolean(), true),
    autoPauseMemory: unsupported((value) => value === true, noMemory),
    autoResume: unsupported(
      (value) => isObject(value) && (value as { enabled?: unknown }).enabled !== true,
      'is not supported: traffic does not resume a paused sandbox, a connect does',
    ),
    network: unsupported((value) => isObject(value) && isUsualNetwork(value), noNetworkRules),
    volumeMounts: unsupported(isEmpty, 'is not supported: there are no volumes'),
    iam: unsupported(isEmpty, 'is not supported: sandboxes get no tokens of an identity'),
    mcp: unsupported(() => false, 'is not supported: start an MCP server in the sandbox with a command'),
  });

/** The body of the first version, which also has a choice that the second has no more. */
const createBodyV1 = newSandbox(15).extend({
  secure: withDefault(z.boolean(), true),
});
const createBodyV2 = newSandbox(300).transform((body) => ({ ...body, secure: true }));

const versions = [
  { url: '/sandboxes', body: createBodyV1 },
  { url: '/v2/sandboxes', body: createBodyV2 },
] as const;

/** `POST /sandboxes` and `POST /v2/sandboxes`, which differ in the default timeout and in `secure`. */
export function createE2bSandbox(api: Api, deps: ApiDependencies): void {
  for (const { url, body } of versions) {
    api.route({
      method: 'POST',
      url: e2bPrefix + url,
      config: {
        access: anyUser('by_role'),
        // As for POST /v1/sandboxes.
        bodyBytes: 1024 * 1024,
        idempotency: {
          makes: 'sandbox',
          secrets: ['envdAccessToken', 'trafficAccessToken'],
          restore: async (data) => {
            const sandboxId = data.sandboxID as SandboxId;
            // Without a row the sandbox is long gone, and so is its token.
            const sandbox = await deps.orm.em.fork().findOne(Sandbox, { sandboxId });
            return { ...data, ...(sandbox && presentTokens(deps, sandbox)) };
          },
        },
      },
      schema: {
        hide: true,
        operationId: 'createSandbox',
        headers: idempotencyHeaders,
        body,
        response: { 201: connectedSandbox },
      },
      handler: async (request, reply) => {
        const { sandboxId, awaitsImage } = await createAndStart(deps, request, wantedSandbox(request.body));
        const sandbox = await readSandboxRow(deps, request, sandboxId);
        const isStarting = sandbox.status === 'created' || sandbox.status === 'starting';
        // The client gets no id and cannot end it.
        if (isStarting) await deps.sandboxCommands.terminate(sandbox, { forget: false });
        if (isStarting || e2bState(sandbox.status) === null) throw notStarted(sandbox, awaitsImage && isStarting);
        return reply.code(201).send(presentConnected(deps, sandbox));
      },
    });
  }
}

const usual: WantedSandbox = createBody.parse({});

function wantedSandbox(body: z.output<typeof createBodyV1>): WantedSandbox {
  return {
    ...usual,
    template: templateNamed(body.templateID),
    timeout: body.timeout,
    metadata: body.metadata,
    env_vars: body.envVars,
    secure: body.secure,
    allow_internet_access: body.allow_internet_access,
    auto_pause: body.autoPause,
    publicPorts: true,
  };
}

/** Reasons for a failed start that lie in the template. */
const ofTemplate: readonly SandboxReason[] = ['image_pull_failed', 'image_refused', 'not_ready', 'runtime_exited'];

function notStarted({ reason, failure }: Sandbox, awaitsImage: boolean): AppError {
  if (reason && ofTemplate.includes(reason)) {
    return new AppError('template_not_usable', `No sandbox of this template starts: ${failure?.message ?? reason}`);
  }
  if (awaitsImage) {
    return new AppError('temporarily_unavailable', 'The image of the template is being made; try again later', {
      retryAfterSeconds: 30,
    });
  }
  return new AppError(
    'temporarily_unavailable',
    `The sandbox could not be started: ${failure?.message ?? 'try again'}`,
  );
}
