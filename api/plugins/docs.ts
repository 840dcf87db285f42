import reference from '@scalar/fastify-api-reference';
import fp from 'fastify-plugin';
import { anyone } from '../access.ts';

/**
 * `GET /docs`: the OpenAPI documents of the API and of the agent for people. Its script is served locally, and the page
 * fetches nothing from other origins.
 */
export const docs = fp(
  async (app) => {
    app.addHook('onRoute', (route) => {
      if (!route.url.startsWith('/docs')) return;
      route.config = { ...route.config, access: anyone({ requestsPerMinute: 120 }) };
      route.schema = { ...route.schema, hide: true };
    });
    await app.register(reference, {
      routePrefix: '/docs',
      logLevel: 'silent',
      configuration: {
        // Without this address the plugin also serves the document at addresses of its own.
        url: '/openapi.json',
        sources: [
          { slug: 'api', title: 'API', url: '/openapi.json', default: true },
          { slug: 'agent', title: 'Agent in the sandbox', url: '/agent-openapi.json' },
        ],
        title: 'Sandbox platform',
        withDefaultFonts: false,
        telemetry: false,
        hideClientButton: true,
        showDeveloperTools: 'never',
        mcp: { disabled: true },
        agent: { disabled: true },
      },
    });
  },
  { name: 'docs', dependencies: ['openapi'] },
);
