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
import { readRegistryImage, registryImage, registryProjectOf } from '../../../domain/templates/image.ts';
import { callerOf, scopeOf } from '../../access.ts';
import type { ApiDependencies } from '../../dependencies.ts';
import { keepImage, reachRegistry, requireRegistry } from '../../template-images.ts';
import { templateVisibility } from './template-schema.ts';

export const sharingSchema = z.object({
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
export async function changeSharing(
  deps: ApiDependencies,
  request: FastifyRequest,
  templateId: TemplateId,
  change: { visibility: 'private' | 'account_shared'; name?: string | undefined; message: string },
): Promise<z.output<typeof sharingSchema>> {
  const by = { caller: callerOf(request), scope: scopeOf(request) };
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
  const project = registryProjectOf({ accountId, ownerUserId }, visibility);
  if (!stored) return template.image ? null : { registryProject: project };
  if (template.registryProject === project) return null;
  const registry = requireRegistry(deps.registry);
  const place = {
    project,
    repository: template.registryRepository ?? template.name,
    tag: template.registryTag ?? 'latest',
  };
  const path = registry.pathOf(place);
  await keepImage(deps, { path, digest: stored.digest });
  await reachRegistry(() => registry.copy(stored, { path, tag: place.tag }));
  return {
    image: registryImage(path, stored.digest),
    registryImageUrl: registry.urlOf(place),
    registryProject: project,
    registryRepository: place.repository,
    registryTag: place.tag,
  };
}
