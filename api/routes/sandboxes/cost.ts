import { z } from 'zod';
import { usagePrices } from '../../../db/billing/usage-prices.ts';
import { readSandboxUsage } from '../../../db/usage/usage-sessions.ts';
import { sumExact, toJsonNumber } from '../../../domain/billing/money.ts';
import { usageTypeNames, usageTypes } from '../../../domain/usage/types.ts';
import { isBilled } from '../../../platform/config/billing.ts';
import { anyUser } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';
import { readSandboxRow, sandboxPath } from './reply.ts';

const used = (what: string) => z.number().min(0).describe(what);

const costSchema = z
  .object({
    sandbox_id: z.string(),
    currency: z.string().meta({ pattern: '^[A-Z]{3}$' }),
    amount: z.number().min(0).nullable().describe('To a millionth. Null: this platform charges nothing'),
    cpu_seconds: used('Reserved cores, while the sandbox runs'),
    ram_gb_seconds: used('Reserved memory, while the sandbox runs'),
    sandbox_storage_gb_seconds: used('The size of the disk, while the sandbox runs or is paused'),
    traffic_gb: used('Sent and received bytes'),
    cpu_seconds_used: used('Used processor time, which has no price'),
    ram_gb_seconds_used: used('Used memory, which has no price'),
  })
  .meta({ id: 'SandboxCost' });

const typesOfSandboxes = usageTypeNames.filter((type) => usageTypes[type].resource === 'sandbox');

/** `GET /v1/sandboxes/{sandbox_id}/cost`. */
export function getSandboxCost(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/sandboxes/:sandbox_id/cost',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'getSandboxCost',
      tags: ['Sandboxes'],
      summary: 'Read what a sandbox has used until now, and its cost',
      description:
        'At the prices of the time of the usage, before tax. A free plan includes its usage. Recorded usage is removed ' +
        '24 months after its month.',
      params: sandboxPath,
      response: { 200: envelope(costSchema, 'The usage and its cost'), ...failures('not_found') },
    },
    handler: async (request) => {
      const { sandboxId } = await readSandboxRow(deps, request, request.params.sandbox_id);
      const usage = await readSandboxUsage(deps.orm.em, sandboxId, new Date());
      const quantities = typesOfSandboxes.map((type) => [
        type,
        toJsonNumber(usage.find(({ usageType }) => usageType === type)?.quantity ?? '0'),
      ]);
      return success({
        sandbox_id: sandboxId,
        currency: usagePrices.currency,
        amount: isBilled(deps.settings) ? toJsonNumber(sumExact(usage.map(({ cost }) => cost))) : null,
        ...(Object.fromEntries(quantities) as Record<(typeof typesOfSandboxes)[number], number>),
      });
    },
  });
}
