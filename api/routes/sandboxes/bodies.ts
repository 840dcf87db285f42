import net from 'node:net';
import { z } from 'zod';
import type { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import type { Template } from '../../../db/templates/template.entity.ts';
import { defaultTimeoutSeconds, minTimeoutSeconds } from '../../../domain/billing/plans.ts';
import { AppError } from '../../../domain/errors.ts';
import { isOutboundAddressAllowed } from '../../../domain/outbound-addresses.ts';
import {
  checkMountPoint,
  type MountChange,
  type MountPatch,
  maxMounts,
  type WantedMount,
} from '../../../domain/sandboxes/object-storage.ts';
import { maxCustomPorts } from '../../../domain/sandboxes/ports.ts';
import { readStorageTarget } from '../../../domain/sandboxes/storage-endpoint.ts';
import type { Settings } from '../../../platform/config/settings.ts';
import {
  counted,
  description,
  givenId,
  nameField,
  optional,
  optionalBody,
  optionalNonZero,
  positiveInt,
  withDefault,
  withDefaultNonZero,
} from '../../schemas/fields.ts';
import { newPortSchema } from '../../schemas/port.ts';

/** A mount in a request. Its credentials are passed on and are neither stored nor returned. */

const secret = (maxLength: number) =>
  z
    .string()
    .min(1)
    .max(maxLength)
    .regex(/^[\x21-\x7e]+$/, 'must be visible ASCII characters');

const mountPoint = z
  .string()
  .max(1024)
  .meta({ pattern: '^/[^\\s\\x00-\\x1f\\x7f-\\x9f]*$' })
  .transform((text, context) => {
    const checked = checkMountPoint(text);
    if ('path' in checked) return checked.path;
    context.addIssue({ code: 'custom', message: checked.reason });
    return z.NEVER;
  })
  .describe('Absolute path in the sandbox; a missing folder is created');

const place = {
  uri: z
    .string()
    .max(1024)
    .meta({ pattern: '^(s3|oss)://[a-z0-9]' })
    .describe('`s3://<bucket>/<path>` or `oss://<bucket>/<path>`'),
  region: optional(z.string().max(64).meta({ pattern: '^[A-Za-z0-9-]+$' })).describe(
    'A region or an endpoint is required',
  ),
  endpoint: optional(z.string().max(1024).meta({ pattern: '^https?://' })).describe('URL of an S3-compatible server'),
};

const mountFields = z.object({
  ...place,
  mount_point: mountPoint,
  access_key: secret(1024),
  secret_key: secret(1024),
  session_token: optional(secret(8192)).describe('Makes the mount `short_lived`'),
});

function toWanted(given: z.output<typeof mountFields>, context: z.RefinementCtx): WantedMount {
  const target = { uri: given.uri, region: given.region ?? null, endpoint: given.endpoint ?? null };
  const read = readStorageTarget(target);
  if ('reason' in read) context.addIssue({ code: 'custom', path: [read.field], message: read.reason });
  return {
    ...target,
    mountPoint: given.mount_point,
    credentials: {
      accessKey: given.access_key,
      secretKey: given.secret_key,
      sessionToken: given.session_token ?? null,
    },
  };
}

const mount = mountFields.transform(toWanted);

/** `object_storage` of a create: one mount or several. */
const createMounts = optional(z.union([mount, counted(maxMounts, 'mounts', z.array(mount).max(maxMounts))])).transform(
  (given) => ({ mounts: given === undefined ? [] : [given].flat(), isList: Array.isArray(given) }),
);

/** The path of a mount in the body of a create. A single mount is not in a list. */
export function mountPath({ isList }: { isList: boolean }, index: number): string {
  return isList ? `object_storage.${index}` : 'object_storage';
}

const removal = z
  .object({ mount_point: mountPoint, delete: z.literal(true) })
  .transform((given): MountChange => ({ kind: 'delete', mountPoint: given.mount_point }));
const disabling = z
  .object({ mount_point: mountPoint, disable: z.literal(true) })
  .transform((given): MountChange => ({ kind: 'disable', mountPoint: given.mount_point }));
const upsert = mountFields
  .extend({ delete: optional(z.literal(false)), disable: optional(z.literal(false)) })
  .transform((given, context): MountChange => ({ kind: 'upsert', ...toWanted(given, context) }));

/** `object_storage` of a resume: exactly one mode, or none. */
export const mountPatch = withDefault(
  z.object({
    remove_all: withDefault(z.boolean(), false).describe('Deletes all active mounts'),
    disable_all: withDefault(z.boolean(), false).describe('Disables all active mounts; they keep their slots'),
    mounts: optional(
      counted(2 * maxMounts, 'mounts', z.array(z.union([upsert, removal, disabling])).max(2 * maxMounts)),
    ).describe('Changes by mount point: a mount to add or replace, or `delete: true`, or `disable: true`'),
  }),
  { remove_all: false, disable_all: false, mounts: undefined },
)
  .refine(
    ({ remove_all, disable_all, mounts }) => [remove_all, disable_all, mounts !== undefined].filter(Boolean).length < 2,
    'must be one of remove_all, disable_all and mounts',
  )
  .refine(({ mounts = [] }) => new Set(mounts.map((each) => each.mountPoint)).size === mounts.length, {
    path: ['mounts'],
    message: 'must name each mount point once',
  })
  .transform(({ remove_all, disable_all, mounts }) => {
    if (remove_all) return { kind: 'remove_all' as const };
    if (disable_all) return { kind: 'disable_all' as const };
    return mounts ? { kind: 'mounts' as const, changes: mounts } : { kind: 'none' as const };
  });

/**
 * Refuses an endpoint with a literal forbidden address. Names are resolved on the host when the mount is made.
 * @throws {AppError} `validation_failed`
 */
export function requireOutbound(
  mounts: readonly Pick<WantedMount, 'uri' | 'region' | 'endpoint'>[],
  formatPath: (index: number) => string,
  settings: Settings,
) {
  for (const [index, each] of mounts.entries()) {
    const target = readStorageTarget(each);
    if ('reason' in target || net.isIP(target.host) === 0) continue;
    if (isOutboundAddressAllowed(target.host, settings.PLATFORM_OUTBOUND_RANGES)) continue;
    const reason = 'is an address that is not allowed';
    const path = `${formatPath(index)}.endpoint`;
    throw new AppError('validation_failed', `${path} ${reason}`, { details: [{ path, reason }] });
  }
}

/**
 * Refuses, before any work begins, a change of mounts that can never succeed.
 * @throws {AppError} `validation_failed` for a forbidden endpoint; `direct_mount_not_possible` for a session token and
 * a sandbox with direct mounts
 */
export function requireUsable(patch: MountPatch, sandbox: { directMount: boolean }, settings: Settings): void {
  if (patch.kind !== 'mounts') return;
  const upserts = patch.changes.filter((change) => change.kind === 'upsert');
  const formatPath = (at: number) => `object_storage.mounts.${patch.changes.indexOf(upserts[at]!)}`;
  requireOutbound(upserts, formatPath, settings);
  if (sandbox.directMount) requireLasting(upserts, formatPath);
}

/** The fields of a create's body about mounts. */
interface CreateFields {
  allow_internet_access: boolean;
  object_storage: z.output<typeof createMounts>;
  object_storage_direct_mount: boolean;
  s3fs_executable_path: string;
}

/**
 * The options of a create for direct mounts, with which the s3fs of the image runs in the sandbox.
 * @throws {AppError} `validation_failed`, `direct_mount_not_possible`
 */
export function readDirectMount(body: CreateFields, template: Template): Pick<Sandbox, 'directMount' | 's3fsPath'> {
  const { object_storage_direct_mount: asked, s3fs_executable_path: s3fsPath } = body;
  if (!asked && s3fsPath !== '') {
    throw refusal('validation_failed', 's3fs_executable_path', 'is for object_storage_direct_mount only');
  }
  // Only a custom template's image contains s3fs. For other templates the host mounts, which gives the caller the same
  // result.
  const directMount = asked && template.templateSource === 'custom';
  if (directMount && !body.allow_internet_access) {
    throw notPossible(
      'object_storage_direct_mount',
      'needs allow_internet_access, because s3fs uses the network of the sandbox',
    );
  }
  if (directMount) requireLasting(body.object_storage.mounts, (index) => mountPath(body.object_storage, index));
  return { directMount, s3fsPath: directMount ? s3fsPath : '' };
}

/**
 * s3fs reads a session token only from its environment or a file of the image, and processes of the sandbox could see
 * both.
 */
function requireLasting(mounts: readonly WantedMount[], formatPath: (index: number) => string): void {
  const at = mounts.findIndex((mount) => mount.credentials.sessionToken !== null);
  if (at >= 0) throw notPossible(`${formatPath(at)}.session_token`, 'is not supported with an s3fs in the sandbox');
}

const notPossible = (path: string, reason: string) => refusal('direct_mount_not_possible', path, reason);

function refusal(code: 'validation_failed' | 'direct_mount_not_possible', path: string, reason: string): AppError {
  return new AppError(code, `${path} ${reason}`, { details: [{ path, reason }] });
}

/** A timeout in a request. It is compared with the plan's maximum later. */
export const timeoutSeconds = () =>
  positiveInt().min(minTimeoutSeconds, `must be at least ${minTimeoutSeconds} seconds`).describe('Seconds');

/** Body of PUT and POST timeout. */
export const timeoutBody = z.object({ timeout: timeoutSeconds() });

const maxVariables = 256;
const maxVariablesBytes = 128 * 1024;

/** The environment of a sandbox or of a command. The limit is far below the kernel's limit for a process. */
export const envVars = counted(
  maxVariables,
  'variables',
  z
    .record(
      z
        .string()
        .min(1)
        .max(256)
        // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern is about control characters
        .regex(/^[^=\x00]+$/, 'must not have = or NUL'),
      z.string().max(32_768),
    )
    .refine(
      (all) => JSON.stringify(all).length <= maxVariablesBytes,
      `must have at most ${maxVariablesBytes / 1024} KiB`,
    ),
);

/** Values are stored and returned as strings. Numbers and booleans are converted. */
export const metadata = counted(
  100,
  'keys',
  z.record(
    z.string().min(1).max(128),
    z.union([z.string().max(4096), z.number(), z.boolean()]).transform((value) => String(value)),
  ),
);

const customPorts = counted(
  maxCustomPorts,
  'ports',
  z
    .array(newPortSchema)
    .max(maxCustomPorts)
    .superRefine((ports, context) => {
      for (const field of ['port', 'name'] as const) {
        const seen = new Set<unknown>();
        for (const [index, item] of ports.entries()) {
          if (seen.has(item[field])) {
            context.addIssue({ code: 'custom', path: [index, field], message: 'must not be there twice' });
          }
          seen.add(item[field]);
        }
      }
    }),
);

const locality = z.object({
  auto_detect: optional(z.boolean()).describe("Use the caller's region if `region` is left out"),
  region: optionalNonZero(z.string().max(64)).describe('An id of `GET /v1/platform-regions`'),
  force: optional(z.boolean()).describe(
    'Use no other region; ignored with `auto_detect`. By default, the nearest region with capacity is used',
  ),
});

const s3fsPath = z
  .string()
  .max(1024)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern is about control characters
  .regex(/^(\/[^\s\x00-\x1f\x7f-\x9f]+)?$/, 'must be an absolute path without spaces');

/** Body of `POST /v1/sandboxes`. */
export const createBody = optionalBody(
  z.object({
    name: withDefault(nameField(24, { mayBeBlank: true }), '').describe('Generated when empty'),
    description: withDefault(description(), ''),
    template: withDefaultNonZero(z.string().max(128), 'base').describe(
      'An id, the name of a built-in, public or own template, or `<user name>/<name>`',
    ),
    project_id: optionalNonZero(givenId('project', z.string().max(64))).describe(
      "The user's default project when left out",
    ),
    cpu_count: optionalNonZero(positiveInt()).describe("The template's default when left out"),
    memory_mb: optionalNonZero(positiveInt().min(128)).describe("The template's default when left out"),
    storage_gb: optionalNonZero(positiveInt()).describe("Half of the plan's maximum when left out"),
    timeout: withDefault(timeoutSeconds(), defaultTimeoutSeconds),
    env_vars: withDefault(envVars, {}),
    metadata: withDefault(metadata, {}),
    secure: withDefault(z.boolean(), true).describe('The agent requires the access token'),
    allow_internet_access: withDefault(z.boolean(), true),
    object_storage: createMounts.describe('One bucket mount, or a list of them'),
    object_storage_direct_mount: withDefault(z.boolean(), false).describe(
      "The image's own s3fs runs in the sandbox. Not with a session token; ignored for templates that are not custom",
    ),
    s3fs_executable_path: withDefault(s3fsPath, '').describe('Only with a direct mount; empty: the s3fs in PATH'),
    custom_ports: withDefault(customPorts, []),
    locality: optional(locality),
    auto_pause: withDefault(z.boolean(), false).describe('Pause the sandbox at its timeout, instead of terminating it'),
    is_async: withDefault(z.boolean(), false).describe(
      'Reply immediately, instead of when the sandbox runs or has failed',
    ),
  }),
);

export type CreateBody = z.output<typeof createBody>;
