import { z } from 'zod';
import { accountStorageLimit, templateStorageBytes } from '../../../db/templates/template-storage.ts';
import { findActiveAllocation } from '../../../db/usage/quota-allocations.ts';
import { gbOfBytes } from '../../../domain/templates/storage.ts';
import { anyUser, requireCaller, requirePlan } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';

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
      description:
        "Layers that images share count once. `limit_gb` is the plan's, or that of the account's quota if it is lower; " +
        '`user_limit_gb` is that of your quota.',
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
              .describe('Of your quota; null: it does not limit you'),
            percentage: z.number().min(0).max(1e12).describe('Of the limit'),
          }),
          'The used storage, and the limits',
        ),
        ...failures(),
      },
    },
    handler: async (request) => {
      const { accountId, userId } = requireCaller(request);
      const em = deps.orm.em.fork();
      const usedGb = gbOfBytes(await templateStorageBytes(em, { accountId }));
      const own = {
        user_used_gb: gbOfBytes(await templateStorageBytes(em, { accountId, userId })),
        user_limit_gb: (await findActiveAllocation(em, { accountId, userId }))?.templateStorageGb || null,
      };
      const { limitGb } = await accountStorageLimit(em, accountId, requirePlan(request, deps.plans));
      const percentage = Math.round((usedGb / limitGb) * 10_000) / 100;
      return success({ used_gb: usedGb, limit_gb: limitGb, ...own, percentage });
    },
  });
}
