import { z } from 'zod';
import { listSandboxViews, sandboxSortColumns } from '../../../db/sandboxes/sandbox-reads.ts';
import { sandboxStatuses } from '../../../domain/sandboxes/state.ts';
import { anyUser, requireScope } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { givenId, optionalQuery, personSchema } from '../../schemas/fields.ts';
import {
  accountQuery,
  ownerFilter,
  paginationSchema,
  pagingQuery,
  presentPagination,
  sortingQuery,
  toListing,
} from '../../schemas/lists.ts';
import { envelope, failures, ofPaging, success } from '../../schemas/replies.ts';
import { allFields, presentSandbox, sandboxStatus } from './reply.ts';

/** One status, or several separated by commas. */
export const statusFilter = optionalQuery(
  z
    .string()
    .max(200)
    .meta({ pattern: `^(${sandboxStatuses.join('|')})(,(${sandboxStatuses.join('|')}))*$` })
    .transform((text) => text.split(',').map((word) => word.trim()))
    .pipe(z.array(sandboxStatus).max(sandboxStatus.options.length)),
).describe('One status, or several, separated by commas');

/** `{"key":"value"}`, or `key=value` pairs separated by commas or `&`. */
export const metadataFilter = optionalQuery(
  z
    .string()
    .max(8192)
    .transform((text, context) => {
      const found = text.trim().startsWith('{') ? [fromJson(text)] : fromPairs(text);
      const [first, ...others] = found;
      if (first) return [first, ...others.filter((other) => other !== null)];
      context.addIssue({ code: 'custom', message: 'must be a JSON object of strings, or key=value pairs' });
      return z.NEVER;
    }),
).describe(
  '`{"key":"value"}`, or `key=value` pairs separated by commas or &; a sandbox must have all of them. Keys and ' +
    'values of pairs may be percent-encoded once more than the query',
);

/** An item of the list. Account root callers also get `owner`. */
const sandboxSummarySchema = allFields
  .pick({
    sandbox_id: true,
    name: true,
    description: true,
    template_id: true,
    template_name: true,
    template_exists: true,
    owner_user_id: true,
    project_id: true,
    project_name: true,
    cpu_count: true,
    memory_mb: true,
    storage_gb: true,
    timeout: true,
    timeout_at: true,
    remaining_seconds: true,
    auto_pause: true,
    secure: true,
    allow_internet_access: true,
    metadata: true,
    env_vars: true,
    object_storage: true,
    object_storage_single: true,
    object_storage_direct_mount: true,
    object_storage_s3fs_path: true,
    ports: true,
    template_ports: true,
    custom_ports: true,
    template_custom_command: true,
    template_ready_command: true,
    template_source: true,
    status: true,
    substatus: true,
    reason: true,
    started_at: true,
    stopped_at: true,
    created_at: true,
    updated_at: true,
    sandbox_domain: true,
    sandbox_domain_internal: true,
    web_terminal_available: true,
    web_files_available: true,
    paused_at: true,
    pausing_at: true,
    resumed_at: true,
    total_paused_seconds: true,
    lifecycle_outcome: true,
    persistence_days: true,
    persistence_expires_at: true,
    persistence_days_remaining: true,
    uptime: true,
    network_proxy: true,
  })
  .extend({ owner: personSchema.optional() })
  .meta({ id: 'SandboxSummary' });

/** Query of `GET /v1/sandboxes`. */
const listQuery = z.object({
  ...pagingQuery,
  ...accountQuery,
  status: statusFilter,
  project_id: optionalQuery(givenId('project', z.string().max(64))),
  owner_user_id: optionalQuery(givenId('user', z.string().max(64))).describe('Account root only'),
  search: optionalQuery(z.string().max(256)).describe('Part of a name, description or id'),
  metadata: metadataFilter,
  ...sortingQuery(sandboxSortColumns),
});

/** JSON escapes can contain characters that the database cannot store. */
const storable = z.string().refine((text) => !text.includes('\0') && text.isWellFormed());
const scalars = z.record(storable, z.union([storable, z.number(), z.boolean()]).transform(String));

function fromJson(text: string): Record<string, string> | null {
  try {
    return scalars.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    // The text is not JSON. The caller gets an error about the filter.
    return null;
  }
}

/**
 * The pairs as given, and with their keys and values percent-decoded once and twice, because clients encode them
 * differently.
 */
function fromPairs(text: string): (Record<string, string> | null)[] {
  const pairs = text.split(/[,&]/).map((pair) => pair.split(/=(.*)/s, 2) as [string, string | undefined]);
  if (pairs.some(([key, value]) => key.trim() === '' || value === undefined)) return [null];
  const asGiven = pairs.map(([key, value]) => [key.trim(), value!.trim()] as const);
  const readings = [asGiven];
  while (readings.length < 3) {
    const before = readings.at(-1)!;
    const decoded = before.map(([key, value]) => [decodedOnce(key), decodedOnce(value)] as const);
    if (JSON.stringify(decoded) === JSON.stringify(before)) break;
    readings.push(decoded);
  }
  return readings.map((reading) => Object.fromEntries(reading));
}

function decodedOnce(text: string): string {
  try {
    const decoded = decodeURIComponent(text);
    return decoded.includes('\0') ? text : decoded;
  } catch {
    // A percent sign that is not the start of an escape stays a percent sign.
    return text;
  }
}

/** `GET /v1/sandboxes`. A user sees their own sandboxes, the account root all sandboxes of the account. */
export function listSandboxes(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/sandboxes',
    config: { access: anyUser('by_role') },
    schema: {
      operationId: 'listSandboxes',
      tags: ['Sandboxes'],
      summary: 'List sandboxes, newest first',
      description: 'Users see their own sandboxes, account roots those of the account. Filters can be combined.',
      querystring: listQuery,
      response: {
        200: envelope(
          z.object({ sandboxes: z.array(sandboxSummarySchema), pagination: paginationSchema }),
          'A page of sandboxes',
        ),
        ...failures(ofPaging, 'root_required', 'admin_required', 'not_found'),
      },
    },
    handler: async (request) => {
      const scope = requireScope(request);
      const { query } = request;
      const listing = toListing(deps, request, 50);
      const filter = {
        statuses: query.status,
        projectId: query.project_id,
        ownerUserId: ownerFilter(scope, query.owner_user_id),
        search: query.search,
        metadata: query.metadata,
      };
      const { views, ...page } = await listSandboxViews(deps.orm.em.fork(), scope, filter, listing);
      const now = new Date();
      const sandboxes = views.map((view) => {
        const { owner, ...fields } = presentSandbox(view, deps.settings, now);
        return scope.rows === 'user' ? fields : { ...fields, owner };
      });
      return success({ sandboxes, pagination: presentPagination(listing, page) });
    },
  });
}
