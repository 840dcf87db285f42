import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Identity } from '../../db/accounts/identities.ts';
import type { ListPosition } from '../../db/core/page.ts';
import type { Template } from '../../db/templates/template.entity.ts';
import { deleteTemplate } from '../../db/templates/template-changes.ts';
import { findTemplateByNameOrId, listTemplateViews, type TemplateView } from '../../db/templates/templates.ts';
import { defaultStorageGb, type Plan } from '../../domain/billing/plans.ts';
import { e2bPrefix } from '../../domain/e2b-address.ts';
import { notFound } from '../../domain/errors.ts';
import { isUsable } from '../../domain/templates/image.ts';
import { anyUser, requireCaller, requirePlan, requireScope } from '../access.ts';
import type { Api, ApiDependencies } from '../dependencies.ts';
import { time } from '../schemas/fields.ts';
import { e2bTemplateName, envdVersion, templateNamed } from './names.ts';

const named = {
  templateID: z.string(),
  public: z.boolean(),
  aliases: z.array(z.string()),
  names: z.array(z.string()),
  createdAt: time(),
  updatedAt: time(),
  lastSpawnedAt: time().nullable(),
  spawnCount: z.int(),
};

const buildStatus = z.enum(['building', 'waiting', 'ready', 'error']);

const sized = { cpuCount: z.int(), memoryMB: z.int(), diskSizeMB: z.int(), envdVersion: z.string() };

/** An item of the list. */
const listedTemplate = z.object({
  ...named,
  ...sized,
  buildID: z.string(),
  buildCount: z.int(),
  buildStatus,
  createdBy: z.object({ id: z.string(), email: z.string() }).nullable(),
});

/** The get reply. */
const templateWithBuilds = z.object({
  ...named,
  builds: z.array(z.object({ ...sized, buildID: z.uuid(), status: buildStatus, createdAt: time(), updatedAt: time() })),
});

/** Clients name a template by its id, its name, or `<user name>/<name>`. */
const templatePath = z.object({ template_id: z.string().max(128) });

/** The list has no pages, but is read in some. */
const pageSize = 100;

/** `GET /templates`: all templates that the caller may use or see, newest first. */
export function listE2bTemplates(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: `${e2bPrefix}/templates`,
    config: { access: anyUser('by_role') },
    // `teamID` is ignored, because a key belongs to one account.
    schema: { hide: true, response: { 200: z.array(listedTemplate) } },
    handler: async (request) => {
      const [caller, plan] = [requireCaller(request), requirePlan(request, deps.plans)];
      const listed: z.output<typeof listedTemplate>[] = [];
      let after: ListPosition | null = null;
      do {
        const listing = { sortBy: 'created_at', sortOrder: 'desc', limit: pageSize, offset: 0, after } as const;
        const page = await listTemplateViews(deps.orm.em.fork(), requireScope(request), {}, listing);
        listed.push(...page.views.map((view) => presentListed(view, caller, plan)));
        after = page.next;
      } while (after !== null);
      return listed;
    },
  });
}

/** `GET /templates/{templateID}`: with its image as its only build. */
export function getE2bTemplate(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: `${e2bPrefix}/templates/:template_id`,
    config: { access: anyUser('by_role') },
    schema: { hide: true, params: templatePath, response: { 200: templateWithBuilds } },
    handler: async (request) => {
      const template = await readTemplate(deps, request, request.params.template_id);
      const { createdAt, updatedAt } = template;
      const sizes = presentSizes(template, requirePlan(request, deps.plans));
      const build = { ...sizes, buildID: onlyBuildId, status: presentStatus(template), createdAt, updatedAt };
      return { ...presentNames(template), builds: [build] };
    },
  });
}

/** `GET /templates/aliases/{alias}`: whether a template of this name exists. */
export function findE2bTemplateAlias(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: `${e2bPrefix}/templates/aliases/:alias`,
    config: { access: anyUser('by_role') },
    schema: {
      hide: true,
      params: z.object({ alias: z.string().max(128) }),
      response: { 200: z.object({ templateID: z.string(), public: z.boolean() }) },
    },
    handler: async (request) => {
      const template = await readTemplate(deps, request, request.params.alias);
      return { templateID: template.templateId, public: template.visibility === 'public' };
    },
  });
}

/** `DELETE /templates/{templateID}`. */
export function deleteE2bTemplate(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'DELETE',
    url: `${e2bPrefix}/templates/:template_id`,
    config: { access: anyUser('by_role') },
    schema: { hide: true, operationId: 'deleteTemplate', params: templatePath, response: { 204: z.null() } },
    handler: async (request, reply) => {
      const { templateId } = await readTemplate(deps, request, request.params.template_id);
      const by = { caller: requireCaller(request), scope: requireScope(request) };
      await deleteTemplate(deps.orm.em.fork(), by, templateId);
      return reply.code(204).send(null);
    },
  });
}

/** @throws {AppError} `not_found` */
async function readTemplate(deps: ApiDependencies, request: FastifyRequest, nameOrId: string): Promise<Template> {
  const [scope, caller] = [requireScope(request), requireCaller(request)];
  const template = await findTemplateByNameOrId(deps.orm.em.fork(), scope, caller, templateNamed(nameOrId));
  if (!template) throw notFound('Template');
  return template;
}

/** A template has one image, which is no build with an id of its own. */
const onlyBuildId = '00000000-0000-0000-0000-000000000000';

function presentListed(
  { template, owner }: TemplateView,
  caller: Identity,
  plan: Plan,
): z.output<typeof listedTemplate> {
  return {
    ...presentNames(template),
    ...presentSizes(template, plan),
    buildID: onlyBuildId,
    buildCount: 1,
    buildStatus: presentStatus(template),
    // As under `/v1`, a caller sees no addresses of others.
    createdBy: owner && { id: owner.userId, email: owner.userId === caller.userId ? owner.email : owner.username },
  };
}

function presentNames(template: Template) {
  const names = [e2bTemplateName(template.name)];
  return {
    templateID: template.templateId,
    public: template.visibility === 'public',
    ...{ aliases: names, names },
    createdAt: template.createdAt,
    updatedAt: template.updatedAt,
    // The platform does not count the sandboxes of a template.
    lastSpawnedAt: null,
    spawnCount: 0,
  };
}

function presentSizes(template: Template, plan: Plan) {
  return {
    cpuCount: template.defaultCpuCount,
    memoryMB: template.defaultMemoryMb,
    diskSizeMB: defaultStorageGb(plan) * 1024,
    envdVersion,
  };
}

function presentStatus(template: Template): z.output<typeof buildStatus> {
  if (isUsable({ ...template, image: template.image ?? null })) return 'ready';
  if (template.status === 'failed') return 'error';
  return template.status === 'pending' ? 'waiting' : 'building';
}
