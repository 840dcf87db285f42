import type { EntityManager } from '@mikro-orm/postgresql';
import { z } from 'zod';
import type { Scope } from '../../../db/core/scope.ts';
import { readUsageGroups, readUsageTotals } from '../../../db/usage/usage-reports.ts';
import { countSessions } from '../../../db/usage/usage-sessions.ts';
import { givenId, optionalQuery } from '../../schemas/fields.ts';
import { accountQuery } from '../../schemas/lists.ts';
import { windowOf, windowQuery } from '../../schemas/usage-window.ts';
import {
  groupQuery,
  groupsFields,
  presentGroups,
  presentPeriod,
  presentSummary,
  summarySchema,
  timePeriodSchema,
} from './usage-schema.ts';

/** The query of a report. */
export const reportQuery = z.object({
  ...windowQuery,
  ...accountQuery,
  project_id: optionalQuery(givenId('project', z.string().max(64))),
  ...groupQuery,
});

/** The fields of every report. Spread them into the schema of the reply. */
export const reportFields = { summary: summarySchema, time_period: timePeriodSchema, ...groupsFields };

/**
 * The common part of every report, and the parsed query.
 * @throws {AppError} `invalid_date_range`
 */
export async function readReport(em: EntityManager, scope: Scope, asked: z.output<typeof reportQuery>) {
  const now = new Date();
  const window = windowOf(asked, now);
  const of = { scope, projectId: asked.project_id };
  const [totals, counts, groups] = await Promise.all([
    readUsageTotals(em, of, window, now),
    countSessions(em, of, window, now),
    asked.group_by ? readUsageGroups(em, of, window, asked.group_by, now) : null,
  ]);
  const shown = {
    summary: presentSummary(totals, counts),
    time_period: presentPeriod(window),
    ...presentGroups(groups),
  };
  return { of, window, now, shown };
}
