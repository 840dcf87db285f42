import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { listSandboxViews, type SandboxFilter } from '../../db/sandboxes/sandbox-reads.ts';
import { e2bPrefix } from '../../domain/e2b-address.ts';
import { AppError } from '../../domain/errors.ts';
import { anyUser, requireScope } from '../access.ts';
import type { Api, ApiDependencies } from '../dependencies.ts';
import { metadataFilter } from '../routes/sandboxes/list.ts';
import { optionalQuery, timeQuery } from '../schemas/fields.ts';
import { toListing } from '../schemas/lists.ts';
import { e2bStates, statusesOf, templateNamed } from './names.ts';
import { listedSandbox, presentListed } from './sandbox-reply.ts';

/** States separated by commas, or the parameter several times. */
const states = optionalQuery(
  z
    .union([z.string().max(64), z.array(z.string().max(64)).max(8)])
    .transform((given) => [given].flat().flatMap((text) => text.split(',')))
    .pipe(z.array(z.enum(e2bStates)).max(16)),
);

const query = z.object({
  metadata: metadataFilter,
  state: states,
  order: optionalQuery(z.enum(['asc', 'desc'])),
  startedAfter: timeQuery(),
  template: optionalQuery(z.string().max(128)),
  nextToken: optionalQuery(z.string().max(4096)),
  limit: optionalQuery(z.coerce.number().int().min(1).max(100)),
});

/** `GET /v2/sandboxes`: a page of the sandboxes that run or are paused. `x-next-token` leads to the next page. */
export function listE2bSandboxes(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: `${e2bPrefix}/v2/sandboxes`,
    config: { access: anyUser('by_role') },
    schema: { hide: true, querystring: query, response: { 200: z.array(listedSandbox) } },
    handler: async (request, reply) => {
      const { state = e2bStates, template, metadata, startedAfter } = request.query;
      const filter: SandboxFilter = {
        statuses: state.flatMap((each) => statusesOf[each]),
        metadata,
        template: template && templateNamed(template),
        startedAfter,
      };
      const listing = readListing(deps, request);
      const { views, ...page } = await listSandboxViews(deps.orm.em.fork(), requireScope(request), filter, listing);
      const next = listing.cursorAfter(page);
      if (next !== null) reply.header('x-next-token', next);
      const now = new Date();
      return views.map(({ sandbox }) => presentListed(sandbox, now));
    },
  });
}

/** @throws {AppError} `invalid_pagination` */
function readListing(deps: ApiDependencies, request: FastifyRequest<{ Querystring: z.output<typeof query> }>) {
  const { routeOptions, params, scope } = request;
  const { nextToken, limit, order, ...filters } = request.query;
  try {
    const asked = { ...filters, cursor: nextToken, limit, sort_order: order };
    return toListing(deps, { routeOptions, params, scope, query: asked }, 100);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'invalid_pagination') throw error;
    throw new AppError('invalid_pagination', 'nextToken must be one of this list, with the same filters and order');
  }
}

/** The first version of the list has no pages, so it ends where a page of the second does. */
const maxListed = 100;

/** `GET /sandboxes`: all sandboxes that run. */
export function listRunningE2bSandboxes(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: `${e2bPrefix}/sandboxes`,
    config: { access: anyUser('by_role') },
    schema: {
      hide: true,
      querystring: z.object({ metadata: metadataFilter }),
      response: { 200: z.array(listedSandbox) },
    },
    handler: async (request) => {
      const filter = { statuses: statusesOf.running, metadata: request.query.metadata };
      const { views, next } = await listSandboxViews(deps.orm.em.fork(), requireScope(request), filter, {
        ...{ sortBy: 'created_at', sortOrder: 'desc', limit: maxListed, offset: 0, after: null },
      });
      if (next !== null) {
        const message = `More than ${maxListed} sandboxes run: use GET /v2/sandboxes, which has pages`;
        throw new AppError('validation_failed', message);
      }
      const now = new Date();
      return views.map(({ sandbox }) => presentListed(sandbox, now));
    },
  });
}
