import { z } from 'zod';
import { findActiveAllocation } from '../../../db/repositories/quota-allocations.ts';
import { templateStorageBytes } from '../../../db/repositories/template-storage.ts';
import { gbOfBytes } from '../../../domain/template-storage.ts';
import { anyUser, callerOf, planOf } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, success } from '../../schemas/envelope.ts';
import { failures } from '../../schemas/failures.ts';

/** `GET /v1/templates/storage-usage`: images of the account's private and shared templates. A layer of several images counts once. */
export function getTemplateStorageUsage(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/templates/storage-usage',
    config: { access: anyUser('account') },
    schema: {
      operationId: 'getTemplateStorageUsage',
      tags: ['Templates'],
      summary: "Read the storage that the images of the account's private and shared templates use",
      description: "Layers that images share count once. `limit_gb` is the plan's, `user_limit_gb` that of your quota.",
      response: {
        200: envelope(
          z.object({
            used_gb: z.number().min(0).max(1e12),
            limit_gb: z.number().min(0).max(1e12),
            user_used_gb: z.number().min(0).max(1e12).describe('By your own templates'),
            user_limit_gb: z
              .number()
              .min(0)
              .max(1e12)
              .nullable()
              .describe('Of your quota; null: only the plan limits you'),
            percentage: z.number().min(0).max(1e12).describe('Of the limit'),
          }),
          'The used storage, and the limit of the plan',
        ),
        ...failures(),
      },
    },
    handler: async (request) => {
      const { accountId, userId } = callerOf(request);
      const em = deps.orm.em.fork();
      const usedGb = gbOfBytes(await templateStorageBytes(em, { accountId }));
      const own = {
        user_used_gb: gbOfBytes(await templateStorageBytes(em, { accountId, userId })),
        user_limit_gb: (await findActiveAllocation(em, userId))?.templateStorageGb || null,
      };
      const limitGb = planOf(request, deps.plans).maxTemplateStorageGb;
      const percentage = Math.round((usedGb / limitGb) * 10_000) / 100;
      return success({ used_gb: usedGb, limit_gb: limitGb, ...own, percentage });
    },
  });
}
