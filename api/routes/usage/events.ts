import { z } from 'zod';
import { usagePrices } from '../../../db/billing/usage-prices.ts';
import { listUsageEvents as readEvents, type UsageEvent } from '../../../db/usage/usage-event-lists.ts';
import { resourceTypes, usageTypeNames, usageTypes } from '../../../domain/usage/types.ts';
import { anyUser, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { givenId, optionalQuery, time } from '../../schemas/fields.ts';
import { accountQuery, paginationSchema, pagingQuery, presentPagination, toListing } from '../../schemas/lists.ts';
import { envelope, failures, ofPaging, success } from '../../schemas/replies.ts';
import { boundsQuery, resolveBounds } from '../../schemas/usage-window.ts';

const query = z.object({
  ...pagingQuery,
  ...accountQuery,
  ...boundsQuery,
  project_id: optionalQuery(givenId('project', z.string().max(64))),
  resource_type: optionalQuery(z.enum(resourceTypes)),
  usage_type: optionalQuery(z.enum(usageTypeNames)),
});

const eventSchema = z
  .object({
    event_id: z.string().meta({ examples: ['use-68346139a7d30cf1db691a864368db0b'] }),
    resource_type: z.enum(resourceTypes),
    resource_id: z.string(),
    user_id: z.string(),
    account_id: z.string(),
    project_id: z.string().nullable().describe('Null for a template'),
    usage_type: z.enum(usageTypeNames),
    usage_quantity: z.number().min(0),
    usage_unit: z.enum(['cpu_seconds', 'gb_seconds', 'gb']),
    resource_specs: z.object({
      cpu_count: z.int().nullable().describe('Null for a template'),
      memory_mb: z.int().nullable().describe('Null for a template'),
    }),
    event_timestamp: time().describe('When the period ended'),
    period_start: time(),
    period_end: time().describe('Within the same hour (UTC) as the start'),
    unit_price: z.number().min(0).describe('0: measured, but not charged'),
    total_cost: z.number().min(0),
    currency: z.string(),
    metadata: z.record(z.string(), z.string()).describe('Of the sandbox'),
    tags: z.array(z.enum(['charged', 'measured'])),
    created_at: time().describe('When it was recorded'),
  })
  .meta({ id: 'UsageEvent' });

/** `GET /v1/usage/events`. */
export function listUsageEvents(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/usage/events',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listUsageEvents',
      tags: ['Usage'],
      summary: 'List recorded usage by object and period, newest first',
      description:
        'One event for each object, type and period; a period never crosses a full hour. Events are never changed. ' +
        '`start` and `end` limit the end of the period.',
      querystring: query,
      response: {
        200: envelope(
          z.object({ events: z.array(eventSchema), pagination: paginationSchema }),
          'A page of events whose period ended after `start`, and not after `end`',
        ),
        ...failures(ofPaging, 'invalid_date_range', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const { project_id: projectId, resource_type: resourceType, usage_type: usageType } = request.query;
      const listing = toListing(deps, request, 50);
      const window = resolveBounds(request.query, new Date());
      const of = { scope: requireScope(request), projectId };
      const { events, ...page } = await readEvents(deps.orm.em, of, { resourceType, usageType }, window, listing);
      return success({ events: events.map(present), pagination: presentPagination(listing, page) });
    },
  });
}

function present(event: UsageEvent): z.output<typeof eventSchema> {
  const { unit, charged } = usageTypes[event.usageType];
  return {
    event_id: event.eventId,
    resource_type: event.resourceType,
    resource_id: event.resourceId,
    user_id: event.userId,
    account_id: event.accountId,
    project_id: event.projectId,
    usage_type: event.usageType,
    usage_quantity: event.quantity,
    usage_unit: unit,
    resource_specs: { cpu_count: event.cpuCount, memory_mb: event.memoryMb },
    event_timestamp: event.periodEnd,
    period_start: event.periodStart,
    period_end: event.periodEnd,
    unit_price: event.unitPrice,
    total_cost: event.cost,
    currency: usagePrices.currency,
    metadata: event.metadata,
    tags: [charged ? 'charged' : 'measured'],
    created_at: event.createdAt,
  };
}
