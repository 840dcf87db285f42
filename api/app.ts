import cookie from '@fastify/cookie';
import Fastify, { type FastifyInstance, LogController } from 'fastify';
import { serializerCompiler } from 'fastify-type-provider-zod';
import type { Api, ApiDependencies } from './dependencies.ts';
import { createUrlRewriter } from './e2b/address.ts';
import { e2bRoutes } from './e2b/index.ts';
import { createHttpServer } from './http-server.ts';
import { pagesForPeople } from './pages/index.ts';
import { access } from './plugins/access.ts';
import { audit } from './plugins/audit.ts';
import { authentication } from './plugins/authentication.ts';
import { bodies } from './plugins/bodies.ts';
import { clientPackages } from './plugins/client-packages.ts';
import { codecServer } from './plugins/codec-server.ts';
import { draining } from './plugins/draining.ts';
import { errors, onFrameworkError, onMalformedRequest } from './plugins/errors.ts';
import { openapi } from './plugins/openapi.ts';
import './plugins/fastify-types.ts';
import { gatewayClients, readGatewayClient } from './plugins/gateway-clients.ts';
import { health } from './plugins/health.ts';
import { idempotency } from './plugins/idempotency.ts';
import { metrics } from './plugins/metrics.ts';
import { rateLimits } from './plugins/rate-limits.ts';
import { requestLimits } from './plugins/request-limits.ts';
import { readRequestId, requestIds, requestLogs } from './plugins/request-logs.ts';
import { slicedReplies } from './plugins/sliced-replies.ts';
import { unreadBodies } from './plugins/unread-bodies.ts';
import { validatorCompiler } from './plugins/validation.ts';
import { routes } from './routes/index.ts';
import { consolePages } from './site/console.ts';
import { documentation } from './site/serve.ts';

/** The body limit of requests to unknown addresses. Each route has its own limit. */
const unroutedBodyBytes = 1024;
const timeouts = { headersTimeoutMs: 10_000, requestTimeoutMs: 30_000, timeoutCheckMs: 2_000 };

/** The control plane's HTTP API, ready to listen or to be injected into. Its rate limits are its only state. */
export function createApp(deps: ApiDependencies): FastifyInstance {
  const { settings } = deps;
  const app = Fastify({
    loggerInstance: deps.logger,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    genReqId: readRequestId,
    rewriteUrl: createUrlRewriter(settings),
    bodyLimit: unroutedBodyBytes,
    serverFactory: (handler) => {
      const perClient = settings.PLATFORM_TRUST_PROXY ? null : settings.PLATFORM_API_MAX_CONNECTIONS_PER_CLIENT;
      return createHttpServer(handler, {
        ...timeouts,
        connectionsPerClient: perClient,
        readGatewayClient: (request) => readGatewayClient(request, deps.clientAddressKeys()),
      });
    },
    return503OnClosing: false,
    // There is one proxy. Only the address that it appended counts; addresses from the caller do not.
    trustProxy: settings.PLATFORM_TRUST_PROXY && ((_address, hop) => hop < 1),
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 256 },
    frameworkErrors: onFrameworkError,
    clientErrorHandler: onMalformedRequest,
  });
  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(serializerCompiler);

  // Few requests have a cookie that counts, so none is parsed in advance.
  app.register(cookie, { hook: false });
  app.register(draining);
  app.register(requestIds);
  app.register(gatewayClients, { keys: deps.clientAddressKeys });
  app.register(unreadBodies);
  app.register(errors);
  app.register(requestLimits);
  app.register(rateLimits, {
    perKey: settings.PLATFORM_RATE_LIMIT_PER_KEY,
    perAddress: settings.PLATFORM_RATE_LIMIT_PER_ADDRESS,
  });
  app.register(authentication, { orm: deps.orm, accessTokens: deps.accessTokens, settings });
  app.register(access, { orm: deps.orm });
  app.register(requestLogs);
  app.register(bodies);
  app.register(idempotency, { orm: deps.orm });
  app.register(audit, { orm: deps.orm });
  app.register(slicedReplies);
  app.register(openapi, { settings });
  app.register(metrics, { orm: deps.orm, temporal: deps.readiness.find(({ name }) => name === 'temporal') });
  app.register(health, { checks: deps.readiness, readTaskQueueAges: deps.readTaskQueueAges });
  app.register(documentation, { settings });
  app.register(consolePages, { settings });
  app.register(codecServer, {
    codec: deps.codec,
    accessTokens: deps.codecAccessTokens,
    webUiOrigin: settings.TEMPORAL_UI_URL ? new URL(settings.TEMPORAL_UI_URL).origin : null,
  });
  app.register(clientPackages, { settings });
  app.register(pagesForPeople, deps);
  app.register(async (api) => {
    for (const route of [...routes, ...e2bRoutes]) route(api as unknown as Api, deps);
  });
  return app as unknown as FastifyInstance;
}
