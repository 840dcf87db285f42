import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { requestStart } from '../../../db/core/outbox.ts';
import type { Template } from '../../../db/templates/template.entity.ts';
import {
  changeTemplate,
  requireChangeable,
  requireNoImport,
  type TemplateImage,
} from '../../../db/templates/template-changes.ts';
import { AppError } from '../../../domain/errors.ts';
import type { TemplateId } from '../../../domain/ids.ts';
import { deriveRegistryProject, readRegistryImage, registryImage } from '../../../domain/templates/image.ts';
import { checkTemplateName } from '../../../domain/templates/name.ts';
import { anyUser, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { optionalBody, optionalNonZero } from '../../schemas/fields.ts';
import { envelope, failures, ofMutations, success } from '../../schemas/replies.ts';
import { templateName } from './body.ts';
import { keepImage, reachRegistry, requireRegistry } from './images.ts';
import { templatePath, templateVisibility } from './schema.ts';

const sharingSchema = z.object({
  template_id: z.string(),
  visibility: templateVisibility,
  registry_project: z.string().nullable(),
  registry_image_url: z.string().nullable(),
  message: z.string(),
});

/**
 * Makes a template private or shared in its account. First its image is made available in the project of the new
 * visibility, so the template always has an image. The old project is cleared in the background.
 * @throws {AppError} `not_found`, `template_of_another_user`, `template_not_shareable`, `import_in_progress`
 */
async function changeSharing(
  deps: ApiDependencies,
  request: FastifyRequest,
  templateId: TemplateId,
  change: { visibility: 'private' | 'account_shared'; name?: string | undefined; message: string },
): Promise<z.output<typeof sharingSchema>> {
  const by = { caller: requireCaller(request), scope: requireScope(request) };
  const { visibility } = change;
  // No lock is held during calls of the registry. Concurrent changes are detected below.
  const before = await requireChangeable(deps.orm.em.fork(), by, templateId);
  if (before.visibility === 'public') {
    throw new AppError('template_not_shareable', 'A public template is already visible to everyone');
  }
  await requireNoImport(deps.orm.em.fork(), templateId);
  const moved = await moveImage(deps, before, visibility);
  const template = await changeTemplate(deps.orm.em.fork(), by, templateId, async (present, tx) => {
    await requireNoImport(tx, templateId);
    if (present.image !== before.image || present.visibility === 'public') {
      throw new AppError('import_in_progress', 'The image of the template has just changed; try again');
    }
    const { accountId, image } = before;
    if (moved && accountId && image) requestStart(tx, 'imageRemoval', image, { accountId, image });
    return { ...moved, visibility, ...(change.name === undefined ? {} : { name: change.name }) };
  });
  return {
    template_id: templateId,
    visibility: template.visibility,
    registry_project: template.registryProject ?? null,
    registry_image_url: template.registryImageUrl ?? null,
    message: change.message,
  };
}

/** Null: the image is not an image of the registry, or is there already. */
async function moveImage(
  deps: ApiDependencies,
  template: Template,
  visibility: 'private' | 'account_shared',
): Promise<Partial<TemplateImage> | null> {
  const stored = template.image ? readRegistryImage(template.image) : null;
  const { accountId, ownerUserId } = template;
  if (!accountId || !ownerUserId) return null;
  const project = deriveRegistryProject({ accountId, ownerUserId }, visibility);
  if (!stored) return template.image ? null : { registryProject: project };
  if (template.registryProject === project) return null;
  const registry = requireRegistry(deps.registry);
  const place = {
    project,
    repository: template.registryRepository ?? template.name,
    tag: template.registryTag ?? 'latest',
  };
  const path = registry.formatPath(place);
  await keepImage(deps, { path, digest: stored.digest });
  await reachRegistry(() => registry.copy(stored, { path, tag: place.tag }));
  return {
    image: registryImage(path, stored.digest),
    registryImageUrl: registry.formatUrl(place),
    registryProject: project,
    registryRepository: place.repository,
    registryTag: place.tag,
  };
}

const body = optionalBody(
  z.object({ new_name: optionalNonZero(templateName()).describe('A new name for the shared template') }),
);

/** `POST /v1/templates/{template_id}/share`. */
export function shareTemplate(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/templates/:template_id/share',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'shareTemplate',
      tags: ['Templates'],
      summary: 'Share a template with all users of the account',
      description:
        "Then all users of the account can make sandboxes from it. Its image moves to the account's project in the " +
        'registry; use `new_name` if the name is already taken there.',
      params: templatePath,
      body,
      response: {
        200: envelope(sharingSchema, 'The template is shared'),
        ...failures(
          ...([
            ofMutations,
            'not_found',
            'invalid_name',
            'template_name_taken',
            'import_in_progress',
            'build_in_progress',
          ] as const),
          ...(['template_of_another_user', 'template_not_shareable', 'registry_unavailable'] as const),
        ),
      },
    },
    handler: async (request) => {
      const { new_name: newName } = request.body;
      const name = newName === undefined ? undefined : checkTemplateName(newName, 'new_name');
      const message = 'The template is shared with the users of the account';
      const change = { visibility: 'account_shared' as const, name, message };
      return success(await changeSharing(deps, request, request.params.template_id, change));
    },
  });
}

/** `POST /v1/templates/{template_id}/unshare`. Sandboxes that other users made of it continue. */
export function unshareTemplate(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/templates/:template_id/unshare',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'unshareTemplate',
      tags: ['Templates'],
      summary: 'Make a shared template private again',
      description:
        'Its image moves back to the project of its owner. Sandboxes that other users made from it continue.',
      params: templatePath,
      response: {
        200: envelope(sharingSchema, 'The template is private'),
        ...failures(
          ...([ofMutations, 'not_found', 'template_of_another_user', 'template_not_shareable'] as const),
          ...(['import_in_progress', 'build_in_progress', 'registry_unavailable'] as const),
        ),
      },
    },
    handler: async (request) => {
      const change = { visibility: 'private' as const, message: 'The template is private' };
      return success(await changeSharing(deps, request, request.params.template_id, change));
    },
  });
}
