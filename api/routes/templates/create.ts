import type { EntityManager } from '@mikro-orm/postgresql';
import { z } from 'zod';
import type { Identity } from '../../../db/accounts/identities.ts';
import type { Scope } from '../../../db/core/scope.ts';
import { Template } from '../../../db/templates/template.entity.ts';
import { createTemplate as addTemplate, type NewTemplate } from '../../../db/templates/template-changes.ts';
import { findTemplateView } from '../../../db/templates/templates.ts';
import { checkPlanLimits, planHeldBy } from '../../../domain/billing/plans.ts';
import { AppError } from '../../../domain/errors.ts';
import type { TemplateId } from '../../../domain/ids.ts';
import { deriveRegistryProject, isBuiltin, mayReadProject } from '../../../domain/templates/image.ts';
import { checkTemplateName } from '../../../domain/templates/name.ts';
import { anyUser, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import {
  bodyBytesWithDescription,
  description,
  givenId,
  optionalNonZero,
  withDefault,
  withDefaultNonZero,
} from '../../schemas/fields.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../schemas/replies.ts';
import {
  imageReference,
  inheritedPorts,
  portsBeside,
  registryPassword,
  registryProject,
  registryRepository,
  registryTag,
  registryUsername,
  settingFields,
  templateName,
} from './body.ts';
import { readNamedImage, requireExternalImage, requireOutboundImage, requireStorage } from './images.ts';
import { createdTemplateSchema, presentCreatedTemplate, templateVisibility } from './schema.ts';

const body = z
  .object({
    name: templateName(),
    description: withDefault(description(), ''),
    ...settingFields,
    visibility: withDefaultNonZero(templateVisibility, 'private').describe('Only operators may set `public`'),
    template_source: withDefaultNonZero(z.enum(['platform_family', 'custom']), 'platform_family'),
    custom_image_source: optionalNonZero(z.enum(['external', 'imported'])).describe('Required for `custom`'),
    external_image_url: optionalNonZero(imageReference).describe('Required for external images'),
    external_registry_username: optionalNonZero(registryUsername),
    external_registry_password: optionalNonZero(registryPassword).describe(
      'Never returned; kept until the import has ended',
    ),
    registry_image_url: optionalNonZero(imageReference).describe("An image in the platform's registry"),
    registry_project: optionalNonZero(registryProject),
    registry_repository: optionalNonZero(registryRepository),
    registry_tag: withDefaultNonZero(registryTag, 'latest'),
    base_template_id: optionalNonZero(givenId('template', z.string().max(64))).describe(
      'The id of a template with the same `template_source`',
    ),
    reset_ports: withDefault(z.boolean(), false).describe('Do not copy the unprotected ports of the base'),
  })
  .superRefine((given, context) => {
    if (given.template_source !== 'custom') return;
    if (!given.custom_image_source && !given.base_template_id) {
      context.addIssue({ code: 'custom', path: ['custom_image_source'], message: 'is required for a custom template' });
    }
    if (given.custom_image_source === 'external' && !given.external_image_url) {
      context.addIssue({ code: 'custom', path: ['external_image_url'], message: 'is required for an external image' });
    }
  });
type Body = z.output<typeof body>;

/** `POST /v1/templates`. */
export function createTemplate(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/templates',
    config: { bodyBytes: bodyBytesWithDescription, access: anyUser('by_role'), idempotency: { makes: 'template' } },
    schema: {
      operationId: 'createTemplate',
      tags: ['Templates'],
      summary: 'Create a template',
      description:
        'Without an image, it is `pending` until a build reports a status or `validate` names an image. A ' +
        'template that is made from a base ' +
        "(`base_template_id`) gets the base's image and status. The plan limits the size and the number of templates.",
      headers: idempotencyHeaders,
      body,
      response: {
        201: envelope(createdTemplateSchema, 'The template'),
        ...failures(
          ...([ofMutations, ofIdempotency, 'invalid_name', 'template_name_taken', 'plan_limit_exceeded'] as const),
          ...([
            'template_limit_reached',
            'budget_restricted',
            'template_not_found',
            'image_not_found',
            'image_unusable',
            'template_storage_limit_reached',
            'admin_required',
          ] as const),
          'registry_unavailable',
        ),
      },
    },
    handler: async (request, reply) => {
      const caller = requireCaller(request);
      const scope = requireScope(request);
      const em = deps.orm.em.fork();
      const find = (templateId: TemplateId) => em.fork().findOne(Template, { templateId, accountId: caller.accountId });
      const template = await createOnce(request, 'template', {
        find,
        create: async (templateId) => {
          const wanted = await newTemplate(em, deps, { caller, scope }, request.body, templateId);
          await addTemplate(em.fork(), caller, wanted, planHeldBy(caller, deps.plans).maxTemplates);
          return (await find(templateId))!;
        },
      });
      return reply.code(201).send(success(presentCreatedTemplate(template)));
    },
  });
}

/** Checks the request except for the number of templates, and fills in its defaults. */
async function newTemplate(
  em: EntityManager,
  deps: ApiDependencies,
  { caller, scope }: { caller: Identity; scope: Scope },
  given: Body,
  templateId: TemplateId,
): Promise<NewTemplate> {
  const name = checkTemplateName(given.name);
  requireVisibility(caller, given.visibility);
  const base = given.base_template_id ? await readBase(em, scope, given.base_template_id, given.template_source) : null;
  const isCustom = given.template_source === 'custom';
  const isExternal = isCustom && given.custom_image_source === 'external';
  const password = given.external_registry_password;
  if (given.external_image_url) requireOutboundImage(given.external_image_url, deps.settings);
  if (isExternal) {
    const username = given.external_registry_username;
    await requireExternalImage(
      deps,
      given.external_image_url!,
      username ? { username, password: password ?? '' } : null,
    );
  }
  const wanted: NewTemplate = {
    templateId,
    name,
    description: given.description,
    defaultCpuCount: given.default_cpu_count ?? base?.defaultCpuCount ?? 2,
    defaultMemoryMb: given.default_memory_mb ?? base?.defaultMemoryMb ?? 512,
    visibility: given.visibility,
    templateSource: given.template_source,
    customImageSource: isCustom ? (given.custom_image_source ?? base?.customImageSource ?? 'imported') : null,
    externalImageUrl: isExternal ? given.external_image_url! : null,
    externalRegistryUsername: isExternal ? (given.external_registry_username ?? null) : null,
    registryPassword: isExternal && password ? deps.sealRegistryPassword(templateId, password) : null,
    metadata: given.metadata ?? base?.metadata ?? null,
    ports: portsBeside(inheritedPorts(base, given.reset_ports), given.ports ?? []),
    customCommand: given.custom_command ?? base?.customCommand ?? null,
    startImageCommand: given.start_image_command ?? base?.startImageCommand ?? true,
    readyCommand: given.ready_command ?? base?.readyCommand ?? null,
    parentTemplateId: base?.templateId ?? null,
    rootTemplateId: base ? (base.rootTemplateId ?? base.templateId) : templateId,
    ...(await resolveImage(deps, caller, given, { base: isExternal ? null : base, name })),
  };
  const owner = { accountId: caller.accountId, ownerUserId: caller.userId, visibility: given.visibility };
  if (wanted.imageBlobs) await requireStorage(em, deps, owner, wanted.imageBlobs);
  const limited = { cpuCount: wanted.defaultCpuCount, memoryMb: wanted.defaultMemoryMb };
  const names = { cpuCount: 'default_cpu_count', memoryMb: 'default_memory_mb' };
  checkPlanLimits(planHeldBy(caller, deps.plans), limited, names);
  return wanted;
}

/**
 * The image in the request, which is still to be validated. Otherwise the image of the base template. Otherwise the
 * place of a future image.
 */
async function resolveImage(
  deps: ApiDependencies,
  caller: Identity,
  given: Body,
  { base, name }: { base: Template | null; name: string },
) {
  const owner = { accountId: caller.accountId, ownerUserId: caller.userId };
  const project = given.registry_project ?? deriveRegistryProject(owner, given.visibility);
  const repository = given.registry_repository ?? name;
  if (given.registry_image_url) {
    return { status: 'pending' as const, ...(await readNamedImage(deps, caller, given.registry_image_url)) };
  }
  if (!mayReadProject(caller, project)) {
    throw new AppError('image_not_found', 'The registry has no such project, or you may not read it', {
      details: [{ path: 'registry_project', reason: 'is not a project that you may read' }],
    });
  }
  const place = { registryProject: project, registryRepository: repository, registryTag: given.registry_tag };
  if (!base?.image) return { status: 'pending' as const, ...place };
  return {
    // A built-in image that no host has made yet is made on demand for sandboxes of both templates.
    status: !base.accountId && isBuiltin(base.image) ? ('available' as const) : base.status,
    image: base.image,
    imageSizeBytes: base.imageSizeBytes ?? null,
    imageBlobs: base.imageBlobs ?? null,
    registryImageUrl: base.registryImageUrl ?? null,
    registryProject: base.registryProject ?? null,
    registryRepository: base.registryRepository ?? null,
    registryTag: base.registryTag ?? null,
  };
}

/** @throws {AppError} `admin_required` */
export function requireVisibility({ role }: Pick<Identity, 'role'>, visibility: Template['visibility']): void {
  if (visibility === 'public' && role !== 'admin') {
    throw new AppError('admin_required', 'Only operators of the platform may make public templates');
  }
}

async function readBase(
  em: EntityManager,
  scope: Scope,
  templateId: TemplateId,
  source: Template['templateSource'],
): Promise<Template> {
  const view = await findTemplateView(em, scope, templateId);
  if (!view) {
    const reason = 'is not a template that you can see';
    throw new AppError('template_not_found', 'There is no such base template', {
      details: [{ path: 'base_template_id', reason }],
    });
  }
  if (view.template.templateSource === source) return view.template;
  const reason = `is a template of the source ${view.template.templateSource}, not ${source}`;
  throw new AppError('validation_failed', `base_template_id ${reason}`, {
    details: [{ path: 'base_template_id', reason }],
  });
}
