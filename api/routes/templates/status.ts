import { z } from 'zod';
import type { Template } from '../../../db/templates/template.entity.ts';
import {
  changeTemplate,
  recordUpload,
  requireChangeable,
  requireNoImport,
} from '../../../db/templates/template-changes.ts';
import { AppError } from '../../../domain/errors.ts';
import { anyUser, requireCaller, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { optionalNonZero } from '../../schemas/fields.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { imageReference, ofNamingImage } from './body.ts';
import { readNamedImage, requireStorage } from './images.ts';
import { templatePath, templateStatus } from './schema.ts';

const maxPushLogs = 65_536;

const statusBody = z.object({
  status: templateStatus,
  error_message: optionalNonZero(z.string().max(8192)).describe('Kept with `failed`'),
  push_logs: optionalNonZero(z.string().max(maxPushLogs)).describe('Not kept'),
  registry_image_url: optionalNonZero(imageReference).describe("An image in the platform's registry"),
});

/** `PUT /v1/templates/{template_id}/status`: for builds outside the platform, which push to its registry themselves. */
export function setTemplateStatus(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'PUT',
    url: '/v1/templates/:template_id/status',
    config: { bodyBytes: 512 * 1024, access: anyUser('by_role') },
    schema: {
      operationId: 'setTemplateStatus',
      tags: ['Templates'],
      summary: "Report the status of a template's build",
      description:
        'For builds outside of the platform, which push to its registry themselves. `available` requires an ' +
        'image that ' +
        'is in the registry.',
      params: templatePath,
      body: statusBody,
      response: {
        200: envelope(
          z.object({ message: z.string(), template_id: z.string(), build_status: templateStatus }),
          'The status of the template',
        ),
        ...failures(ofNamingImage),
      },
    },
    handler: async (request) => {
      const caller = requireCaller(request);
      const by = { caller, scope: requireScope(request) };
      const { template_id: templateId } = request.params;
      const { status, error_message: reason, registry_image_url: url } = request.body;
      await requireChangeable(deps.orm.em.fork(), by, templateId);
      const image = url ? await readNamedImage(deps, caller, url) : null;
      await changeTemplate(deps.orm.em.fork(), by, templateId, async (present, tx) => {
        await requireNoImport(tx, templateId);
        if (image) await requireStorage(tx, deps, present, image.imageBlobs!);
        if (status === 'available' && !image && !present.image) {
          const reason = 'is required for `available`, because the template has no image';
          throw new AppError('validation_failed', `registry_image_url ${reason}`, {
            details: [{ path: 'registry_image_url', reason }],
          });
        }
        const isUploaded = status === 'available' && (url || (present.image && present.status !== status));
        if (isUploaded) await recordUpload(tx, present);
        return {
          ...image,
          ...deriveTimes(status),
          status,
          buildErrorMessage: status === 'failed' ? (reason ?? null) : null,
        };
      });
      return success({ message: `The template is ${status}`, template_id: templateId, build_status: status });
    },
  });
}

function deriveTimes(status: Template['status']): Partial<Template> {
  const now = new Date();
  switch (status) {
    case 'building':
      return { buildStartedAt: now, pushStartedAt: null, pushCompletedAt: null };
    case 'pushing':
      return { pushStartedAt: now, pushCompletedAt: null };
    case 'available':
      return { pushCompletedAt: now };
    default:
      return {};
  }
}

const validateBody = z.object({ registry_image_url: imageReference.describe("An image in the platform's registry") });

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
      body: validateBody,
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
      const caller = requireCaller(request);
      const by = { caller, scope: requireScope(request) };
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
