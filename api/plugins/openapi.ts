import swagger from '@fastify/swagger';
import fp from 'fastify-plugin';
import { jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod';
import type { z } from 'zod';
import { defaultJsonBounds } from '../../domain/json-bounds.ts';
import { apiUrl } from '../../platform/config/public-urls.ts';
import { releaseVersion } from '../../platform/config/release.ts';
import type { Settings } from '../../platform/config/settings.ts';
import { completeDocument, optionalBodyMark } from '../openapi/document.ts';

const { maxDepth, maxValues, maxKeys } = defaultJsonBounds;

/** The OpenAPI 3.1 document, `app.swagger()`, generated from the schemas that validate and serialise. */
export const openapi = fp<{ settings: Settings }>(
  async (app, { settings }) => {
    await app.register(swagger, {
      openapi: {
        openapi: '3.1.0',
        info: {
          title: 'Sandbox platform',
          description:
            'Isolated development sandboxes. Replies have an envelope `{success, data, message, timestamp}`; errors carry a stable `code`. ' +
            'Optional fields may be null, and unknown fields are ignored. Every reply has `X-Request-Id`; ' +
            '`RateLimit-*` headers show the rate limit. ' +
            `Bodies are JSON without Content-Encoding: at most \`x-max-body-bytes\` bytes, ${maxDepth} levels, ${maxValues} values and ${maxKeys} keys. ` +
            'Public routes accept `x-requests-per-minute` requests from one address. `x-access` shows who may ' +
            'call a route (`anyone`, any `user`, an ' +
            '`account_root`, an `operator` of the platform) and on whose objects it works (`none`; the ' +
            "caller's `own`; `by_role`: the caller's own, " +
            'or for an account root all of the account; all of the `account`; `everything`). Any other object is 404.',
          version: releaseVersion,
          license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
        },
        servers: [{ url: apiUrl(settings) }],
        components: {
          securitySchemes: {
            apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
            authorization: { type: 'apiKey', in: 'header', name: 'Authorization', description: '`Api-Key <key>`' },
            accessToken: {
              type: 'http',
              scheme: 'bearer',
              bearerFormat: 'JWT',
              description: 'Of `POST /v1/auth/sign-in`',
            },
            session: {
              type: 'apiKey',
              in: 'cookie',
              name: 'sandbox-session',
              description:
                'Of `POST /v1/auth/session`, for pages of the same origin; with https `__Host-sandbox-session`',
            },
          },
        },
        security: [{ apiKey: [] }, { authorization: [] }, { accessToken: [] }, { session: [] }],
        tags: [
          'Sandboxes',
          'Templates',
          'Projects',
          'API keys',
          'Sign-in',
          'Users',
          'Webhooks',
          'Billing',
          'Budgets',
          'Payments',
          'Operation',
        ].map((name) => ({
          name,
        })),
      },
      transform: (route) => {
        const transformed = jsonSchemaTransform(route);
        const body = (route.schema as { body?: z.ZodType } | undefined)?.body;
        const mark = body?.safeParse(undefined).success ? { [optionalBodyMark]: true } : {};
        return { ...transformed, schema: { ...transformed.schema, ...mark } };
      },
      transformObject: (document) => completeDocument(withoutUnusedSchemas(jsonSchemaTransformObject(document))),
    });
  },
  { name: 'openapi' },
);

/** Each named schema has a form for requests and one for replies. Removes the unreferenced forms. */
function withoutUnusedSchemas<D extends ReturnType<typeof jsonSchemaTransformObject>>(document: D): D {
  const { components, paths } = document as { components?: { schemas?: Record<string, unknown> }; paths?: unknown };
  const schemas = components?.schemas ?? {};
  const used = new Set<string>();
  const visit = (part: unknown) => {
    for (const [, name] of JSON.stringify(part).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
      if (used.has(name!)) continue;
      used.add(name!);
      visit(schemas[name!]);
    }
  };
  visit(paths ?? {});
  for (const name of Object.keys(schemas)) if (!used.has(name)) delete schemas[name];
  return document;
}
