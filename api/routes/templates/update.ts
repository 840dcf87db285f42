import { z } from 'zod';
import type { Template } from '../../../db/templates/template.entity.ts';
import { changeTemplate, requireChangeable, requireNoImport } from '../../../db/templates/template-changes.ts';
import { checkPlanLimits, type Plan } from '../../../domain/billing/plans.ts';
import type { TemplateId } from '../../../domain/ids.ts';
import { checkTemplateName } from '../../../domain/templates/name.ts';
import { anyUser, requireCaller, requirePlan, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import {
  bodyBytesWithDescription,
  description,
  optional,
  optionalBody,
  optionalNonZero,
} from '../../schemas/fields.ts';
import { envelope, failures, ofMutations, success } from '../../schemas/replies.ts';
import {
  imageReference,
  portsBeside,
  registryPassword,
  registryUsername,
  settingFields,
  templateName,
} from './body.ts';
import { readNamedImage, requireExternalImage, requireOutboundImage, requireStorage } from './images.ts';
import { changedTemplateSchema, presentChangedTemplate, templatePath } from './schema.ts';

const body = optionalBody(
  z.object({
    name: optionalNonZero(templateName()),
    description: optional(description()),
    ...settingFields,
    external_image_url: optionalNonZero(imageReference),
    external_registry_username: optionalNonZero(registryUsername),
    external_registry_password: optionalNonZero(registryPassword),
    registry_image_url: optionalNonZero(imageReference).describe("An image in the platform's registry"),
  }),
);
type Body = z.output<typeof body>;

/** `PUT /v1/templates/{template_id}`. Existing sandboxes keep the template that they were made of. */
export function updateTemplate(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/templates/:template_id',
    config: { bodyBytes: bodyBytesWithDescription, access: anyUser('by_role') },
    schema: {
      operationId: 'updateTemplate',
      tags: ['Templates'],
      summary: 'Change a template',
      description:
        'Fields that are left out or empty do not change; `ports` replaces all but the protected ones. ' +
        'Existing sandboxes ' +
        'do not change.',
      params: templatePath,
      body,
      response: {
        200: envelope(z.object({ template: changedTemplateSchema }), 'The template'),
        ...failures(
          ...([ofMutations, 'not_found', 'invalid_name', 'template_name_taken', 'plan_limit_exceeded'] as const),
          ...([
            'template_of_another_user',
            'import_in_progress',
            'build_in_progress',
            'image_not_found',
            'image_unusable',
            'template_storage_limit_reached',
            'registry_unavailable',
          ] as const),
        ),
      },
    },
    handler: async (request) => {
      const caller = requireCaller(request);
      const by = { caller, scope: requireScope(request) };
      const { template_id: templateId } = request.params;
      const { external_image_url: external, registry_image_url: registryUrl } = request.body;
      const before = await requireChangeable(deps.orm.em.fork(), by, templateId);
      if (external) await requireNewExternal(deps, before, external, request.body);
      const image = registryUrl ? await readNamedImage(deps, caller, registryUrl) : null;
      const settings = toSettingsChange(deps, requirePlan(request, deps.plans), request.body, templateId);
      const template = await changeTemplate(deps.orm.em.fork(), by, templateId, async (present, tx) => {
        if (registryUrl || external || settings.registryPassword) await requireNoImport(tx, templateId);
        if (image) await requireStorage(tx, deps, present, image.imageBlobs!);
        return { ...settings, ...image, ...toPortsChange(present, request.body) };
      });
      return success({ template: presentChangedTemplate(template) }, 'The template is changed');
    },
  });
}

async function requireNewExternal(deps: ApiDependencies, before: Template, url: string, given: Body): Promise<void> {
  requireOutboundImage(url, deps.settings);
  const username = given.external_registry_username ?? before.externalRegistryUsername;
  const password = given.external_registry_password;
  // A stored password is for the import alone.
  if (username && !password) return;
  await requireExternalImage(deps, url, username ? { username, password: password! } : null);
}

function toSettingsChange(deps: ApiDependencies, plan: Plan, given: Body, templateId: TemplateId): Partial<Template> {
  const limited = { cpuCount: given.default_cpu_count, memoryMb: given.default_memory_mb };
  const names = { cpuCount: 'default_cpu_count', memoryMb: 'default_memory_mb' };
  checkPlanLimits(plan, limited, names);
  const password = given.external_registry_password;
  const change: { [Field in keyof Template]?: Template[Field] | undefined } = {
    name: given.name === undefined ? undefined : checkTemplateName(given.name),
    description: given.description,
    defaultCpuCount: given.default_cpu_count,
    defaultMemoryMb: given.default_memory_mb,
    metadata: given.metadata,
    customCommand: given.custom_command,
    startImageCommand: given.start_image_command,
    readyCommand: given.ready_command,
    externalImageUrl: given.external_image_url,
    externalRegistryUsername: given.external_registry_username,
    registryPassword: password ? deps.sealRegistryPassword(templateId, password) : undefined,
  };
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
}

/** The given ports replace all ports except protected ones. */
function toPortsChange(present: Template, { ports }: Body): Partial<Template> {
  if (!ports) return {};
  const numbers = new Set(ports.map(({ port }) => port));
  const kept = present.ports.filter(({ isProtected, port }) => isProtected && !numbers.has(port));
  return { ports: portsBeside(kept, ports) };
}
