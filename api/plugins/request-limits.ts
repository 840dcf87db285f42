import type { RouteOptions } from 'fastify';
import fp from 'fastify-plugin';
import { publicRequestsPerMinute } from '../access.ts';

/** The enforced limits of one route. */
export interface RouteLimits {
  method: string;
  url: string;
  bodyBytes: number;
  /** Who shares the count of requests: an API key on all its routes, or an address on this one. */
  countedBy: 'key' | 'address';
  /** Null: the setting for keys. */
  requestsPerMinute: number | null;
}

/** For a route without a body: `{}` and white space still pass. */
const withoutBodyBytes = 1024;
/** For a route with a body that states no limit. */
const withBodyBytes = 16 * 1024;

/**
 * Gives every route its limits, from what the route declares in `config`: `bodyBytes`, and `access` with the
 * `requestsPerMinute` of a public route. The defaults are small, so that a route that needs more has to say so. Bodies are held to their
 * limit by Fastify, requests by `authentication`.
 */
export const requestLimits = fp(
  async (app) => {
    const limits: RouteLimits[] = [];
    const routes: RouteOptions[] = [];
    app.decorate('routeLimits', limits);
    app.addHook('onRoute', (route) => {
      route.bodyLimit = bodyLimitOf(route);
      routes.push(route);
    });
    // Plugins that are registered later may still declare a route public.
    app.addHook('onReady', async () => {
      for (const route of routes) limits.push(...declaredLimits(route));
    });
  },
  { name: 'request-limits' },
);

function bodyLimitOf({ config, schema }: RouteOptions): number {
  return config?.bodyBytes ?? (schema?.body ? withBodyBytes : withoutBodyBytes);
}

/** The limits of a route, by method; puts them into its part of the OpenAPI document, too. */
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
