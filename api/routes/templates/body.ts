import { z } from 'zod';
import type { Template } from '../../../db/templates/template.entity.ts';
import { AppError, type ErrorCode } from '../../../domain/errors.ts';
import { conflictWithTemplate, maxCustomPorts, type Port, unionOfPorts } from '../../../domain/sandboxes/ports.ts';
import { parseCustomCommand, parseReadyCommand } from '../../../domain/templates/commands.ts';
import { maxReferenceLength, parseImageReference } from '../../../domain/templates/image-reference.ts';
import { templateNameLength, templateNamePattern } from '../../../domain/templates/name.ts';
import { optional, optionalNonZero, positiveInt } from '../../schemas/fields.ts';
import { describeIssue } from '../../schemas/issue-texts.ts';
import { newPortSchema, readNewPort } from '../../schemas/port.ts';
import { ofMutations } from '../../schemas/replies.ts';

/** Fields that several bodies of templates have. Empty texts count as absent. */

const maxCommandLength = 16_384;
const maxPortsLength = 16_384;

export const templateName = () =>
  z
    .string()
    .max(256)
    .meta({ minLength: templateNameLength.min, maxLength: templateNameLength.max, pattern: templateNamePattern });

const portList = z
  .array(newPortSchema)
  .max(maxCustomPorts)
  .superRefine((ports, context) => {
    for (const field of ['port', 'name'] as const) {
      const values = ports.map((item) => item[field]);
      const twice = values.findIndex((value, index) => values.indexOf(value) !== index);
      if (twice >= 0) context.addIssue({ code: 'custom', path: [twice, field], message: 'must not be there twice' });
    }
  });

/** A text that contains a JSON array of ports. */
export const templatePorts = z
  .string()
  .max(maxPortsLength)
  .transform((text, context): Port[] => {
    const parsed = portList.safeParse(readJson(text), { error: describeIssue });
    if (parsed.success) return parsed.data.map(readNewPort);
    const [issue] = parsed.error.issues;
    const path = (issue?.path ?? []).join('.');
    context.addIssue({
      code: 'custom',
      message: `must be a JSON array of ports: ${[path, issue?.message].join(' ').trim()}`,
    });
    return z.NEVER;
  });

const templateMetadata = z
  .string()
  .max(maxCommandLength)
  .refine((text) => readJson(text) !== undefined, 'must be JSON');

export const customCommand = z.string().max(maxCommandLength).superRefine(checkedBy(parseCustomCommand));
export const readyCommand = z.string().max(maxCommandLength).superRefine(checkedBy(parseReadyCommand));

/** Errors of a route that gives a template an image of the platform's registry. */
export const ofNamingImage: ErrorCode[] = [
  ...ofMutations,
  'not_found',
  'template_of_another_user',
  'import_in_progress',
  'build_in_progress',
  'image_not_found',
  'image_unusable',
  'template_storage_limit_reached',
  'registry_unavailable',
];

export const imageReference = z
  .string()
  .max(maxReferenceLength)
  .refine(
    (text) => parseImageReference(text) !== null,
    'must be an image reference such as docker.io/library/python:3.13',
  );

export const registryUsername = z
  .string()
  .max(256)
  .regex(/^[\x20-\x39\x3b-\x7e]*$/, 'must be printable ASCII without a colon');
export const registryPassword = z.string().max(8192);

export const registryProject = z
  .string()
  .max(128)
  .regex(/^[a-z0-9]+([._-]+[a-z0-9]+)*$/, 'must be the name of a project');
export const registryRepository = z
  .string()
  .max(128)
  .regex(/^[a-z0-9]+([._-]+[a-z0-9]+)*(\/[a-z0-9]+([._-]+[a-z0-9]+)*)*$/, 'must be the name of a repository');
export const registryTag = z
  .string()
  .max(128)
  .regex(/^[A-Za-z0-9_][A-Za-z0-9._-]*$/, 'must be a tag');

/** Settings that a template gives its sandboxes in addition to the image. Each is optional. */
export const settingFields = {
  default_cpu_count: optionalNonZero(positiveInt()),
  default_memory_mb: optionalNonZero(positiveInt().min(128)),
  metadata: optionalNonZero(templateMetadata).describe('JSON in text'),
  custom_command: optionalNonZero(customCommand).describe('A command line, or JSON `{"Entrypoint": [], "Cmd": []}`'),
  start_image_command: optional(z.boolean()).describe(
    'Sandboxes start the ENTRYPOINT and CMD of the image if there is no `custom_command`. By default true',
  ),
  ready_command: optionalNonZero(readyCommand).describe('JSON with `type` of `exec`, `httpGet` or `tcpSocket`'),
  ports: optionalNonZero(templatePorts).describe('A JSON array of ports, as a string'),
};

/**
 * The ports of a base template together with additional ports.
 * @throws {AppError} `validation_failed` for a port that conflicts with a port of the base template
 */
export function portsBeside(base: readonly Port[], own: readonly Port[]): Port[] {
  const conflict = conflictWithTemplate(base, own);
  if (!conflict) return unionOfPorts(base, own);
  const path = `ports.${conflict.index}.${conflict.field}`;
  throw new AppError('validation_failed', `${path} ${conflict.reason}`, {
    details: [{ path, reason: conflict.reason }],
  });
}

/** The ports that a template inherits from its base template. */
export function inheritedPorts(base: Template | null, reset: boolean): Port[] {
  const ports = base?.ports ?? [];
  return reset ? ports.filter(({ isProtected }) => isProtected) : [...ports];
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function checkedBy(parse: (text: string) => unknown) {
  return (text: string, context: z.RefinementCtx) => {
    try {
      parse(text);
    } catch (error) {
      // Other texts are those of the JSON parser.
      const reason =
        error instanceof SyntaxError && error.message.startsWith('must ') ? error.message : 'must be valid JSON';
      context.addIssue({ code: 'custom', message: reason });
    }
  };
}
