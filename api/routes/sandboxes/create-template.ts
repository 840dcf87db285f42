import { z } from 'zod';
import type { Identity } from '../../../db/accounts/identities.ts';
import { requestStart } from '../../../db/core/outbox.ts';
import type { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import { Template } from '../../../db/templates/template.entity.ts';
import { createTemplate, type NewTemplate } from '../../../db/templates/template-changes.ts';
import { checkPlanLimits, planHeldBy } from '../../../domain/billing/plans.ts';
import { AppError } from '../../../domain/errors.ts';
import type { TemplateId } from '../../../domain/ids.ts';
import { deriveRegistryProject } from '../../../domain/templates/image.ts';
import { checkTemplateName } from '../../../domain/templates/name.ts';
import { anyUser, requireCaller } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createOnce, idempotencyHeaders } from '../../plugins/idempotency.ts';
import {
  bodyBytesWithDescription,
  description,
  optionalNonZero,
  positiveInt,
  time,
  withDefault,
  withDefaultNonZero,
} from '../../schemas/fields.ts';
import { portSchema, presentPort } from '../../schemas/port.ts';
import { envelope, failures, ofIdempotency, ofMutations, success } from '../../schemas/replies.ts';
import { customCommand, portsBeside, readyCommand, templateName, templatePorts } from '../templates/body.ts';
import { requireVisibility } from '../templates/create.ts';
import { requireRegistryUp, requireStorage } from '../templates/images.ts';
import { templateStatus, templateVisibility } from '../templates/schema.ts';
import { readSandboxRow, sandboxPath } from './reply.ts';

const body = z.object({
  name: templateName(),
  description: withDefault(description(), ''),
  visibility: withDefaultNonZero(templateVisibility, 'private').describe('Only operators may set `public`'),
  cpu_count: optionalNonZero(positiveInt()).describe("Default: the sandbox's value"),
  memory_mb: optionalNonZero(positiveInt().min(128)).describe("Default: the sandbox's value"),
  ports: optionalNonZero(templatePorts).describe(
    "A JSON array of ports, as a string; added to those of the sandbox's template",
  ),
  custom_command: optionalNonZero(customCommand).describe("Default: the value of the sandbox's template"),
  ready_command: optionalNonZero(readyCommand).describe("Default: the value of the sandbox's template"),
});
type Body = z.output<typeof body>;

const builtTemplate = z.object({
  template_id: z.string(),
  name: z.string(),
  description: z.string(),
  default_cpu_count: z.int(),
  default_memory_mb: z.int(),
  visibility: templateVisibility,
  status: templateStatus,
  registry_project: z.string(),
  registry_repository: z.string(),
  registry_tag: z.string(),
  base_template_id: z.string().describe('The template that the sandbox is made from'),
  ports: z.array(portSchema),
  custom_command: z.string().nullable(),
  ready_command: z.string().nullable(),
  created_at: time(),
  message: z.string(),
});

/** `POST /v1/sandboxes/{sandbox_id}/create-template`. */
export function createTemplateFromSandbox(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/sandboxes/:sandbox_id/create-template',
    config: { bodyBytes: bodyBytesWithDescription, access: anyUser('by_role'), idempotency: { makes: 'template' } },
    schema: {
      operationId: 'createTemplateFromSandbox',
      tags: ['Sandboxes'],
      summary: 'Make a template from a running sandbox',
      description:
        "The content of the sandbox's disk becomes the image of a new template. The sandbox is frozen for a " +
        'moment and then continues. The image is built and pushed after the reply; the status of the template ' +
        'shows the progress.',
      headers: idempotencyHeaders,
      params: sandboxPath,
      body,
      response: {
        200: envelope(builtTemplate, 'The template, whose image is being built'),
        ...failures(
          ...([ofMutations, ofIdempotency, 'not_found', 'sandbox_not_running', 'invalid_name'] as const),
          ...([
            'template_name_taken',
            'plan_limit_exceeded',
            'template_limit_reached',
            'budget_restricted',
            'admin_required',
          ] as const),
          ...(['template_storage_limit_reached', 'registry_unavailable'] as const),
        ),
      },
    },
    handler: async (request) => {
      const caller = requireCaller(request);
      const { sandbox_id: sandboxId } = request.params;
      const em = deps.orm.em.fork();
      const find = (templateId: TemplateId) => em.fork().findOne(Template, { templateId, accountId: caller.accountId });
      const template = await createOnce(request, 'template', {
        find,
        create: async (templateId) => {
          const sandbox = await readSandboxRow(deps, request, sandboxId);
          if (sandbox.status !== 'running') {
            throw new AppError('sandbox_not_running', `The sandbox is ${sandbox.status}, not running`);
          }
          const base = await em.fork().findOne(Template, { templateId: sandbox.templateId });
          const rootTemplateId = base?.rootTemplateId ?? sandbox.templateId;
          const wanted = {
            ...newTemplate(deps, caller, request.body, sandbox, templateId),
            rootTemplateId,
            startImageCommand: base?.startImageCommand ?? true,
          };
          await requireRegistryUp(deps.registry);
          const owner = { accountId: caller.accountId, ownerUserId: caller.userId };
          await requireStorage(em.fork(), deps, { ...owner, visibility: wanted.visibility });
          const { maxTemplates } = planHeldBy(caller, deps.plans);
          await createTemplate(em.fork(), caller, wanted, maxTemplates, (tx) => {
            const { accountId, hostId } = sandbox;
            requestStart(tx, 'templateBuild', templateId, { accountId, templateId, sandboxId, hostId });
          });
          return (await find(templateId))!;
        },
      });
      return success(present(template));
    },
  });
}

function newTemplate(
  deps: ApiDependencies,
  caller: Identity,
  given: Body,
  sandbox: Sandbox,
  templateId: TemplateId,
): NewTemplate {
  const name = checkTemplateName(given.name);
  requireVisibility(caller, given.visibility);
  const owner = { accountId: caller.accountId, ownerUserId: caller.userId };
  const isCustom = sandbox.templateSource === 'custom';
  const wanted: NewTemplate = {
    templateId,
    name,
    description: given.description,
    defaultCpuCount: given.cpu_count ?? sandbox.cpuCount,
    defaultMemoryMb: given.memory_mb ?? sandbox.memoryMb,
    visibility: given.visibility,
    templateSource: isCustom ? 'custom' : 'platform_family',
    customImageSource: isCustom ? 'imported' : null,
    status: 'building',
    buildStartedAt: new Date(),
    buildSandboxId: sandbox.sandboxId,
    registryProject: deriveRegistryProject(owner, given.visibility),
    registryRepository: name,
    registryTag: 'latest',
    ports: portsBeside(sandbox.templatePorts, given.ports ?? []),
    customCommand: given.custom_command ?? sandbox.templateCustomCommand ?? null,
    readyCommand: given.ready_command ?? sandbox.templateReadyCommand ?? null,
    parentTemplateId: sandbox.templateId,
  };
  checkPlanLimits(planHeldBy(caller, deps.plans), { cpuCount: given.cpu_count, memoryMb: given.memory_mb });
  return wanted;
}

function present(template: Template): z.output<typeof builtTemplate> {
  return {
    template_id: template.templateId,
    name: template.name,
    description: template.description,
    default_cpu_count: template.defaultCpuCount,
    default_memory_mb: template.defaultMemoryMb,
    visibility: template.visibility,
    status: template.status,
    registry_project: template.registryProject!,
    registry_repository: template.registryRepository!,
    registry_tag: template.registryTag!,
    base_template_id: template.parentTemplateId!,
    ports: template.ports.map(presentPort),
    custom_command: template.customCommand ?? null,
    ready_command: template.readyCommand ?? null,
    created_at: template.createdAt,
    message: 'The image of the template is being built; its status shows the progress',
  };
}
