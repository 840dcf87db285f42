import { z } from 'zod';
import { defaultTimeoutSeconds, minTimeoutSeconds } from '../../../domain/billing/plans.ts';
import { maxCustomPorts } from '../../../domain/sandboxes/ports.ts';
import {
  counted,
  description,
  givenId,
  nameOf,
  optional,
  optionalBody,
  optionalNonZero,
  positiveInt,
  withDefault,
  withDefaultNonZero,
} from '../../schemas/fields.ts';
import { newPortSchema } from '../../schemas/port.ts';
import { createMounts } from './object-storage.ts';

/** A timeout in a request. It is compared with the plan's maximum later. */
export const timeoutSeconds = () =>
  positiveInt().min(minTimeoutSeconds, `timeout must be at least ${minTimeoutSeconds} seconds`).describe('Seconds');

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
    .refine((all) => JSON.stringify(all).length <= maxVariablesBytes, `is larger than ${maxVariablesBytes / 1024} KiB`),
);

/** Values are stored and returned as strings. Numbers and booleans are converted. */
const metadata = counted(
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
            context.addIssue({ code: 'custom', path: [index, field], message: 'is there twice' });
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
    name: withDefault(nameOf(24, { mayBeBlank: true }), '').describe('Generated when empty'),
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
