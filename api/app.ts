import Fastify, { type FastifyInstance, LogController } from 'fastify';
import { serializerCompiler } from 'fastify-type-provider-zod';
import ipaddr from 'ipaddr.js';
import type { Settings } from '../config/settings.ts';
import type { Api, ApiDependencies } from './dependencies.ts';
import { authentication } from './plugins/authentication.ts';
import { bodies } from './plugins/bodies.ts';
import { docs } from './plugins/docs.ts';
import { draining } from './plugins/draining.ts';
import { errors, onFrameworkError } from './plugins/errors.ts';
import './plugins/fastify-types.ts';
import { health } from './plugins/health.ts';
import { idempotency } from './plugins/idempotency.ts';
import { onMalformedRequest } from './plugins/malformed-requests.ts';
import { metrics } from './plugins/metrics.ts';
import { openapi } from './plugins/openapi.ts';
import { rateLimits } from './plugins/rate-limits.ts';
import { requestIdOf, requestIds } from './plugins/request-ids.ts';
import { requestLogs } from './plugins/request-logs.ts';
import { validatorCompiler } from './plugins/validation.ts';
import { routes } from './routes/index.ts';

const maxBodyBytes = 1024 * 1024;

/** The control plane's HTTP API, ready to listen or to be injected into. Holds no state but its rate limits. */
export function createApp(deps: ApiDependencies): FastifyInstance {
  const { settings } = deps;
  const app = Fastify({
    loggerInstance: deps.logger,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    genReqId: requestIdOf,
    bodyLimit: maxBodyBytes,
    requestTimeout: 60_000,
    return503OnClosing: false,
    // One proxy: what it wrote last counts, not what a caller put before it.
    trustProxy: settings.PLATFORM_TRUST_PROXY && ((_address, hop) => hop < 1),
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 256 },
    frameworkErrors: onFrameworkError,
    clientErrorHandler: onMalformedRequest,
  });
  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(serializerCompiler);

  app.register(draining);
  app.register(requestIds);
  app.register(errors);
  app.register(rateLimits, {
    perKey: settings.PLATFORM_RATE_LIMIT_PER_KEY,
    perAddress: settings.PLATFORM_RATE_LIMIT_PER_ADDRESS,
  });
  app.register(authentication, { orm: deps.orm });
  app.register(requestLogs);
  app.register(bodies);
  app.register(idempotency, { orm: deps.orm });
  app.register(openapi, { serverUrl: apiUrl(settings) });
  app.register(metrics, { open: isPrivate(settings) });
  app.register(health, { checks: deps.readiness });
  app.register(docs);
  app.register(async (api) => {
    for (const route of routes) route(api as unknown as Api, deps);
  });
  return app as unknown as FastifyInstance;
}

/** Where clients reach the API. */
export function apiUrl(settings: Settings): string {
  if (settings.PLATFORM_URL) return settings.PLATFORM_URL;
  const host = settings.PLATFORM_API_HOST.includes(':')
    ? `[${settings.PLATFORM_API_HOST}]`
    : settings.PLATFORM_API_HOST;
  return `http://${host}:${settings.PLATFORM_API_PORT}`;
}

/** Only this machine reaches the listener, and no proxy passes others on to it. */
function isPrivate(settings: Settings): boolean {
  const host = settings.PLATFORM_API_HOST;
  const isLoopback = host === 'localhost' || (ipaddr.isValid(host) && ipaddr.process(host).range() === 'loopback');
  return isLoopback && !settings.PLATFORM_TRUST_PROXY;
}
