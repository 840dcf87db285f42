import { randomBytes } from 'node:crypto';
import type { EntityManager } from '@mikro-orm/postgresql';
import type { FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';
import type { Identity } from '../../../db/accounts/identities.ts';
import { findDefaultProjectId, findProjectView } from '../../../db/accounts/projects.ts';
import type { Scope } from '../../../db/core/scope.ts';
import { isKnownRegion } from '../../../db/hosts/hosts.ts';
import { admitSandbox, type NewSandbox } from '../../../db/sandboxes/admission.ts';
import { Sandbox } from '../../../db/sandboxes/sandbox.entity.ts';
import type { Template } from '../../../db/templates/template.entity.ts';
import { findTemplateByNameOrId } from '../../../db/templates/templates.ts';
import { checkPlanLimits, defaultStorageGb, planHeldBy } from '../../../domain/billing/plans.ts';
import { AppError, notFound } from '../../../domain/errors.ts';
import { nearestTo, type RegionPreference } from '../../../domain/hosts/placement.ts';
import type { ProjectId, SandboxId } from '../../../domain/ids.ts';
import { checkSandboxName, generateSandboxName } from '../../../domain/names.ts';
import { type MountSlot, planMounts } from '../../../domain/sandboxes/object-storage.ts';
import { conflictWithTemplate, type Port } from '../../../domain/sandboxes/ports.ts';
import { isUsable, startsImageCommand } from '../../../domain/templates/image.ts';
import type { Settings } from '../../../platform/config/settings.ts';
import { requireCaller, requireScope } from '../../access.ts';
import type { ApiDependencies } from '../../dependencies.ts';
import { createOnce } from '../../plugins/idempotency.ts';
import { readNewPort } from '../../schemas/port.ts';
import { type CreateBody, mountPath, readDirectMount, requireOutbound } from './bodies.ts';
import type { ExpectedNews } from './sandbox-news.ts';

/** A create of a sandbox: the body of a request, and what only other faces of the API set. */
export interface WantedSandbox extends CreateBody {
  /** Undeclared ports are public, except those of the agent. */
  publicPorts?: boolean;
}

/**
 * Admits a sandbox and starts it. Returns when it runs or has failed, or at once with `is_async`. If it could not be
 * started yet, it is still `created` or `starting`, and the relay starts it later.
 */
export async function createAndStart(
  deps: ApiDependencies,
  request: FastifyRequest,
  body: WantedSandbox,
): Promise<{ sandboxId: SandboxId; awaitsImage: boolean }> {
  const { is_async: isAsync, object_storage: storage } = body;
  const { mounts } = storage;
  requireOutbound(mounts, (index) => mountPath(storage, index), deps.settings);
  const plan = planMounts(mounts);
  const { sandbox, awaitsImage, news } = await admit(deps, request, body, plan.slots);
  const { sandboxId, templateName } = sandbox;
  const sealedCredentials = mounts.length > 0 ? deps.sealFor(sandboxId, plan.credentials) : null;
  request.workflowId = sandboxId;
  if (awaitsImage)
    request.log.info({ sandboxId, templateName }, 'the sandbox waits until the image of its template is made');
  try {
    await deps.sandboxCommands.start(sandbox, { wait: !isAsync, sealedCredentials, news });
  } catch (error) {
    // The sandbox is admitted, and the relay starts it later. So the reply is its current state and not an error.
    request.log.error({ err: error, workflow_id: sandboxId }, 'the sandbox could not be started at once');
  }
  return { sandboxId, awaitsImage };
}

type UsableTemplate = Template & { image: string };

interface Admitted {
  sandbox: Sandbox;
  /** The host is still making the image of the template. */
  awaitsImage: boolean;
  /** The result of its direct start. Null: there is none. */
  news: ExpectedNews | null;
}

async function admit(
  deps: ApiDependencies,
  request: FastifyRequest,
  body: WantedSandbox,
  objectStorage: MountSlot[],
): Promise<Admitted> {
  const caller = requireCaller(request);
  const scope = requireScope(request);
  const em = deps.orm.em.fork();
  return createOnce(request, 'sandbox', {
    find: async (sandboxId) => {
      const sandbox = await em.findOne(Sandbox, { sandboxId, accountId: caller.accountId });
      return sandbox && { sandbox, awaitsImage: false, news: null };
    },
    create: async (sandboxId) => {
      const [preference, template, projectId] = await inOrder(
        regionPreference(em, deps.settings, request, body.locality),
        usableTemplate(em.fork(), { caller, scope }, body.template),
        projectFor(em.fork(), { caller, scope }, body.project_id),
      );
      const wanted = newSandbox(deps, caller, body, { sandboxId, template, projectId });
      const awaitsImage = template.status !== 'available';
      const waits = !body.is_async;
      const canStartDirectly = waits && !awaitsImage && objectStorage.length === 0;
      const news = canStartDirectly ? deps.sandboxNews.expect(sandboxId) : null;
      let isDirect = false;
      try {
        const asked = { ...wanted, objectStorage };
        const admitted = await admitSandbox(em, deps.plans, asked, preference, {
          waits,
          direct: news && { requestId: request.id },
        });
        isDirect = admitted.isDirect;
        return { sandbox: admitted.sandbox, awaitsImage, news: isDirect ? news : null };
      } finally {
        if (!isDirect) news?.end();
      }
    },
  });
}

/** @throws {AppError} `template_not_found`, `template_not_usable` */
async function usableTemplate(
  em: EntityManager,
  { caller, scope }: { caller: Identity; scope: Scope },
  nameOrId: string,
): Promise<UsableTemplate> {
  const template = await findTemplateByNameOrId(em, scope, caller, nameOrId);
  if (!template)
    throw templateError(
      'template_not_found',
      'There is no such template; GET /v1/templates lists those that you may use. Name one of another user by its id or ' +
        'as <user name>/<name>',
    );
  if (!template.image || !isUsable(template)) {
    const why = template.buildErrorMessage ? `: ${template.buildErrorMessage}` : '';
    const reason = template.status === 'available' ? 'has no image' : `is ${template.status}, not available${why}`;
    const next =
      template.customImageSource === 'external'
        ? `; import its image with POST /v1/templates/${template.templateId}/import`
        : '';
    throw templateError('template_not_usable', `The template ${reason}${next}`);
  }
  return { ...template, image: template.image };
}

/** Waits for concurrent reads. Of several errors, the first in the order of the arguments is thrown. */
async function inOrder<A, B, C>(first: Promise<A>, second: Promise<B>, third: Promise<C>): Promise<[A, B, C]> {
  await Promise.allSettled([first, second, third]);
  return [await first, await second, await third];
}

/** Checks the request except for the capacity, and fills in defaults. */
function newSandbox(
  deps: ApiDependencies,
  caller: Identity,
  body: WantedSandbox,
  { sandboxId, template, projectId }: { sandboxId: SandboxId; template: UsableTemplate; projectId: ProjectId },
): NewSandbox {
  const name = checkSandboxName(body.name.trim()) || generateSandboxName(randomBytes(4));
  const plan = planHeldBy(caller, deps.plans);
  const wanted: NewSandbox = {
    sandboxId,
    secretKeyNumber: deps.secretKeyNumber(),
    accountId: caller.accountId,
    ownerUserId: caller.userId,
    projectId,
    name,
    description: body.description,
    templateId: template.templateId,
    templateName: template.name,
    templateSource: template.templateSource,
    templatePorts: template.ports,
    templateCustomCommand: template.customCommand ?? null,
    startImageCommand: startsImageCommand(template),
    templateReadyCommand: template.readyCommand ?? null,
    image: template.image,
    cpuCount: body.cpu_count ?? template.defaultCpuCount,
    memoryMb: body.memory_mb ?? template.defaultMemoryMb,
    storageGb: body.storage_gb ?? defaultStorageGb(plan),
    timeoutSeconds: body.timeout,
    autoPause: body.auto_pause,
    secure: body.secure,
    publicPorts: body.publicPorts ?? false,
    allowInternetAccess: body.allow_internet_access,
    metadata: body.metadata,
    envVars: body.env_vars,
    customPorts: portsFor(template, body),
    ...readDirectMount(body, template),
  };
  checkPlanLimits(plan, wanted);
  return wanted;
}

async function projectFor(
  em: EntityManager,
  { caller, scope }: { caller: Identity; scope: Scope },
  projectId: ProjectId | undefined,
): Promise<ProjectId> {
  if (projectId === undefined) return findDefaultProjectId(em, caller.userId);
  const view = await findProjectView(em, scope, projectId);
  if (!view) throw notFound('Project');
  return view.project.projectId;
}

/**
 * The sandbox's own ports.
 * @throws {AppError} `validation_failed` for a port that conflicts with a port of the template
 */
function portsFor(template: Template, body: CreateBody): Port[] {
  const ports = body.custom_ports.map(readNewPort);
  const conflict = conflictWithTemplate(template.ports, ports);
  if (!conflict) return ports;
  const path = `custom_ports.${conflict.index}.${conflict.field}`;
  throw new AppError('validation_failed', `${path} ${conflict.reason}`, {
    details: [{ path, reason: conflict.reason }],
  });
}

function templateError(code: 'template_not_found' | 'template_not_usable', message: string): AppError {
  return new AppError(code, message, { details: [{ path: 'template', reason: message }] });
}

/**
 * The regions for a request's `locality`: first the given region, or with `auto_detect` the caller's region, otherwise
 * the region of this process. The other regions follow by distance. `force` allows only the first, except with
 * `auto_detect`.
 * @throws {AppError} `invalid_region`
 */
async function regionPreference(
  em: EntityManager,
  settings: Settings,
  request: Pick<FastifyRequest, 'headers' | 'ip'>,
  locality: CreateBody['locality'],
): Promise<RegionPreference> {
  const { region: named, auto_detect: autoDetect = false } = locality ?? {};
  const force = !autoDetect && (locality?.force ?? false);
  const preference = (region: string, forced: boolean) => ({
    nearest: nearestTo(region, settings.PLATFORM_REGIONS_NEAREST),
    forced,
  });
  if (named !== undefined) {
    if (await isKnownRegion(em, named)) return preference(named, force);
    throw new AppError('invalid_region', 'There is no such region', {
      details: [{ path: 'locality.region', reason: 'there is no such region' }],
    });
  }
  const detected = autoDetect ? callerRegion(settings, request) : null;
  if (detected !== null && (await isKnownRegion(em, detected))) return preference(detected, force);
  return preference(settings.PLATFORM_REGION, false);
}

/** The region of this caller according to the operator's settings. Null: unknown. */
function callerRegion(settings: Settings, { headers, ip }: Pick<FastifyRequest, 'headers' | 'ip'>): string | null {
  const header = settings.PLATFORM_REGION_HEADER && headers[settings.PLATFORM_REGION_HEADER.toLowerCase()];
  if (typeof header === 'string' && header.trim() !== '') return header.trim();
  const address = ipaddr.process(ip);
  for (const [region, networks] of Object.entries(settings.PLATFORM_REGION_NETWORKS)) {
    for (const network of networks) {
      const [base, bits] = ipaddr.parseCIDR(network);
      if (base.kind() === address.kind() && address.match(base, bits)) return region;
    }
  }
  return null;
}
