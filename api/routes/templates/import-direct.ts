import { z } from 'zod';
import type { Identity } from '../../../db/accounts/identities.ts';
import { newId } from '../../../db/core/new-id.ts';
import { addImportJob, findNewestImport, pendingImport, toImportTarget } from '../../../db/templates/import-jobs.ts';
import { Template } from '../../../db/templates/template.entity.ts';
import { createTemplate, type NewTemplate } from '../../../db/templates/template-changes.ts';
import { checkPlanLimits, planHeldBy } from '../../../domain/billing/plans.ts';
import { AppError } from '../../../domain/errors.ts';
import type { TemplateId } from '../../../domain/ids.ts';
import { checkTemplateName } from '../../../domain/templates/name.ts';
import { anyUser, requireCaller } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import {
  bodyBytesWithDescription,
  description,
  optionalNonZero,
  time,
  withDefault,
  withDefaultNonZero,
} from '../../schemas/fields.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../schemas/replies.ts';
import { imageReference, registryPassword, registryUsername, settingFields, templateName } from './body.ts';
import { requireVisibility } from './create.ts';
import { requireOutboundImage, requireRegistryUp, requireStorage } from './images.ts';
import { importPlaceIn, importStarted, importStatus } from './imports.ts';
import { templateVisibility } from './schema.ts';

const { metadata: _metadata, ...settings } = settingFields;
const body = z.object({
  name: templateName(),
  external_image_url: imageReference,
  description: withDefault(description(), ''),
  external_registry_username: optionalNonZero(registryUsername),
  external_registry_password: optionalNonZero(registryPassword).describe(
    'Never returned; kept until the import has ended',
  ),
  ...settings,
  visibility: withDefaultNonZero(templateVisibility, 'private').describe(
    'Only account root users may set `account_shared`, and only operators `public`',
  ),
});
type Body = z.output<typeof body>;

const withoutJob = z.object({
  template_id: z.string(),
  name: z.string(),
  visibility: templateVisibility,
  message: z.string(),
});
const withJob = withoutJob.extend({
  job_id: z.string(),
  status: importStatus,
  external_image_url: z.string(),
  registry_image_url: z.string(),
  created_at: time(),
});
const imported = z.union([withJob, withoutJob]);

const notStarted =
  'The template is created, but its import could not be started; try again with POST /v1/templates/{template_id}/import';

/** `POST /v1/templates/import`: creates a template from an external image and imports the image. */
export function importTemplate(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/templates/import',
    config: { bodyBytes: bodyBytesWithDescription, access: anyUser('by_role'), idempotency: { makes: 'template' } },
    schema: {
      operationId: 'importTemplate',
      tags: ['Imports'],
      summary: 'Make a template from an external image, and import the image',
      description:
        "Makes a template and copies the image for the platform's processor into the platform's registry, in the " +
        'background. Follow it with `GET /v1/import-jobs/{job_id}`; at its end you get a notification. A ' +
        'failed copy is ' +
        'retried three times, unless the password, the image or the address is refused.',
      headers: idempotencyHeaders,
      body,
      response: {
        202: envelope(imported, 'The template; with the fields of the job if the import has started'),
        ...failures(
          ...([ofMutations, ofIdempotency, 'invalid_name', 'template_name_taken', 'plan_limit_exceeded'] as const),
          ...(['template_limit_reached', 'budget_restricted', 'admin_required', 'root_required'] as const),
        ),
      },
    },
    handler: async (request, reply) => {
      const caller = requireCaller(request);
      const em = deps.orm.em.fork();
      const find = (templateId: TemplateId) => em.fork().findOne(Template, { templateId, accountId: caller.accountId });
      const template = await createOnce(request, 'template', {
        find,
        create: async (templateId) => {
          const wanted = newTemplate(deps, caller, request.body, templateId);
          const { maxTemplates } = planHeldBy(caller, deps.plans);
          const place = await findPlace(deps, { ...wanted, accountId: caller.accountId, ownerUserId: caller.userId });
          const started = place && { ...wanted, ...pendingImport(new Date()) };
          await createTemplate(em.fork(), caller, started ?? wanted, maxTemplates, (tx) => {
            const owner = { accountId: caller.accountId, ownerUserId: caller.userId };
            const { externalImageUrl = null } = wanted;
            if (place) addImportJob(tx, { templateId, externalImageUrl, ...owner }, newId('importJob'), place);
          });
          return (await find(templateId))!;
        },
      });
      const { templateId, name, visibility } = template;
      const owners = { rows: 'account' as const, accountId: caller.accountId };
      const job = await findNewestImport(em.fork(), owners, templateId);
      const data = { template_id: templateId, name, visibility, message: job ? importStarted : notStarted };
      if (!job) return reply.code(202).send(success(data));
      return reply.code(202).send(
        success({
          ...data,
          job_id: job.jobId,
          status: job.status,
          external_image_url: job.externalImageUrl,
          registry_image_url: job.registryImageUrl,
          created_at: job.createdAt,
        }),
      );
    },
  });
}

/** Null: the registry is away, or there is no storage left for another image. */
async function findPlace(deps: ApiDependencies, template: NewTemplate) {
  try {
    const registry = await requireRegistryUp(deps.registry);
    await requireStorage(deps.orm.em.fork(), deps, template as Template);
    return importPlaceIn(registry)(toImportTarget(template as Template));
  } catch (error) {
    if (error instanceof AppError) return null;
    throw error;
  }
}

function newTemplate(deps: ApiDependencies, caller: Identity, given: Body, templateId: TemplateId): NewTemplate {
  const name = checkTemplateName(given.name);
  requireVisibility(caller, given.visibility);
  if (given.visibility === 'account_shared' && !caller.isRootUser) {
    throw new AppError(
      'root_required',
      'Only account root users may import for the whole account; share the template afterwards',
    );
  }
  requireOutboundImage(given.external_image_url, deps.settings);
  const password = given.external_registry_password;
  const wanted: NewTemplate = {
    templateId,
    name,
    description: given.description,
    defaultCpuCount: given.default_cpu_count ?? 2,
    defaultMemoryMb: given.default_memory_mb ?? 512,
    visibility: given.visibility,
    templateSource: 'custom',
    customImageSource: 'external',
    status: 'pending',
    externalImageUrl: given.external_image_url,
    externalRegistryUsername: given.external_registry_username ?? null,
    registryPassword: password ? deps.sealRegistryPassword(templateId, password) : null,
    ports: given.ports ?? [],
    customCommand: given.custom_command ?? null,
    startImageCommand: given.start_image_command ?? true,
    readyCommand: given.ready_command ?? null,
  };
  const limited = { cpuCount: wanted.defaultCpuCount, memoryMb: wanted.defaultMemoryMb };
  const names = { cpuCount: 'default_cpu_count', memoryMb: 'default_memory_mb' };
  checkPlanLimits(planHeldBy(caller, deps.plans), limited, names);
  return wanted;
}
