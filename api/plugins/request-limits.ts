import type { RouteOptions } from 'fastify';
import fp from 'fastify-plugin';
import { publicRequestsPerMinute } from '../access.ts';

/** The enforced limits of one route. */
export interface RouteLimits {
  method: string;
  url: string;
  bodyBytes: number;
  /** What is counted together: all requests of an API key, or the requests of an address to this route. */
  countedBy: 'key' | 'address';
  /** Null: the limit for keys of the settings applies. */
  requestsPerMinute: number | null;
}

/** The body limit of a route without a body: `{}` and white space still pass. */
const withoutBodyBytes = 1024;
/** The default body limit of a route with a body. */
const withBodyBytes = 16 * 1024;

/**
 * Gives every route its limits from its declarations in `config`: `bodyBytes`, and the `requestsPerMinute` in `access`
 * of a public route. The defaults are small, so a route that needs more must declare it. Fastify enforces the body
 * limit, and `authentication` the limit of requests.
 */
export const requestLimits = fp(
  async (app) => {
    const limits: RouteLimits[] = [];
    const routes: RouteOptions[] = [];
    app.decorate('routeLimits', limits);
    app.addHook('onRoute', (route) => {
      route.bodyLimit = findBodyLimit(route);
      routes.push(route);
    });
    // Plugins that are registered later may still declare a route public.
    app.addHook('onReady', async () => {
      for (const route of routes) limits.push(...declaredLimits(route));
    });
  },
  { name: 'request-limits' },
);

function findBodyLimit({ config, schema }: RouteOptions): number {
  return config?.bodyBytes ?? (schema?.body ? withBodyBytes : withoutBodyBytes);
}

/** The limits of a route for each of its methods. Also adds them to the OpenAPI document. */
function declaredLimits(route: RouteOptions): RouteLimits[] {
  const { url, config, bodyLimit: bodyBytes = withoutBodyBytes } = route;
  const methods = [route.method].flat();
  const isPublic = config?.access?.who === 'anyone';
  const requestsPerMinute = publicRequestsPerMinute(config?.access);
  if (isPublic && !(requestsPerMinute! > 0)) {
    throw new Error(`${methods} ${url} is public and states no requestsPerMinute`);
  }
  const takesBody = methods.some((method) => method !== 'GET' && method !== 'HEAD');
  route.schema = {
    ...route.schema,
    ...(takesBody && { 'x-max-body-bytes': bodyBytes }),
    ...(requestsPerMinute !== null && { 'x-requests-per-minute': requestsPerMinute }),
  };
  const countedBy = isPublic ? 'address' : 'key';
  return methods.map((method) => ({ method, url, bodyBytes, countedBy, requestsPerMinute }));
}
