import { z } from 'zod';
import {
  changeTemplate,
  recordUpload,
  requireChangeable,
  requireNoImport,
} from '../../../db/templates/template-changes.ts';
import { anyUser, callerOf, scopeOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { readNamedImage, requireStorage } from '../../template-images.ts';
import { imageReference, ofNamingImage } from './template-body.ts';
import { templatePath } from './template-path.ts';
import { templateStatus } from './template-schema.ts';

const body = z.object({ registry_image_url: imageReference.describe("An image in the platform's registry") });

/** `POST /v1/templates/{template_id}/validate`: reads the manifest of the image and makes the template available. */
export function validateTemplate(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'POST',
    url: '/v1/templates/:template_id/validate',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'validateTemplate',
      tags: ['Templates'],
      summary: 'Make a template available with an image that is in the registry',
      description:
        "Reads the manifest of the image in the body, or of the template's own image, and makes the template " +
        '`available` with it.',
      params: templatePath,
      body,
      response: {
        200: envelope(
          z.object({
            message: z.string(),
            template_id: z.string(),
            build_status: templateStatus,
            registry_image_url: z.string(),
          }),
          'The template is available',
        ),
        ...failures(ofNamingImage),
      },
    },
    handler: async (request) => {
      const caller = callerOf(request);
      const by = { caller, scope: scopeOf(request) };
      const { template_id: templateId } = request.params;
      await requireChangeable(deps.orm.em.fork(), by, templateId);
      const image = await readNamedImage(deps, caller, request.body.registry_image_url);
      await changeTemplate(deps.orm.em.fork(), by, templateId, async (present, tx) => {
        await requireNoImport(tx, templateId);
        await requireStorage(tx, deps, present, image.imageBlobs!);
        await recordUpload(tx, present);
        const now = new Date();
        return { ...image, status: 'available', buildErrorMessage: null, pushCompletedAt: now, lastStorageSyncAt: now };
      });
      return success({
        message: 'The registry has the image, and the template is available',
        template_id: templateId,
        build_status: 'available' as const,
        registry_image_url: image.registryImageUrl!,
      });
    },
  });
}
