import { z } from 'zod';
import { readLastReconciliation } from '../../../db/billing/reconciliations.ts';
import { differenceKinds } from '../../../domain/billing/reconciliation.ts';
import { notFound } from '../../../domain/errors.ts';
import { operator } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { time } from '../../schemas/fields.ts';
import { envelope, failures, success } from '../../schemas/replies.ts';

/** More than these are for the command line. */
const shownDifferences = 1000;

const text = (...examples: string[]) => z.string().meta({ examples });

const reconciliationSchema = z
  .object({
    reconciliation_id: text('rec-3f0e6d7a-5a52-4a2f-9d0e-0c9a6f1b2c3d'),
    started_at: time(),
    ended_at: time(),
    reads_processor: z.boolean().describe('Charges were also compared with the payment processor'),
    charges_from: time(),
    charges_until: time(),
    difference_count: z.int().min(0),
    differences: z
      .array(
        z.object({
          kind: z.enum(differenceKinds),
          object_id: text('inv-7hq2m4x9k3w8z5n1d6bt'),
          account_id: z.string().nullable().describe('Null: not known'),
          expected: text('12.50').describe('The value in the rows of the platform'),
          found: text('12.00').describe('The value in the ledger or at the payment processor'),
        }),
      )
      .describe(`At most ${shownDifferences}; \`npm run admin -- list-differences\` shows all`),
  })
  .meta({ id: 'Reconciliation' });

/** `GET /v1/admin/reconciliations/latest`. */
export function getLatestReconciliation(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/admin/reconciliations/latest',
    config: { access: operator('everything') },
    schema: {
      operationId: 'getLatestReconciliation',
      tags: ['Operation'],
      summary: 'Read the result of the last comparison of the money',
      description:
        'Every night the platform compares ledger, invoices, charges and payment processor. People correct the ' +
        'differences. Without a comparison yet, the reply is 404.',
      response: {
        200: envelope(reconciliationSchema, 'The last ended comparison'),
        ...failures('admin_required', 'not_found'),
      },
    },
    handler: async () => {
      const last = await readLastReconciliation(deps.orm.em);
      if (!last) throw notFound('Reconciliation');
      return success({
        reconciliation_id: last.reconciliationId,
        started_at: last.startedAt,
        ended_at: last.endedAt!,
        reads_processor: last.readsProcessor,
        charges_from: last.chargesFrom,
        charges_until: last.chargesUntil,
        difference_count: last.differences.length,
        differences: last.differences
          .slice(0, shownDifferences)
          .map(({ kind, objectId, accountId, expected, found }) => ({
            ...{ kind, object_id: objectId, account_id: accountId, expected, found },
          })),
      });
    },
  });
}
