import { z } from 'zod';
import { e2bPrefix } from '../../domain/e2b-address.ts';
import { anyUser } from '../access.ts';
import type { Api } from '../dependencies.ts';
import { notSupported } from './errors.ts';
import { noNetworkRules } from './fields.ts';

const builds =
  'Builds of templates are not supported here: import an image with POST /v1/templates/import, or make a template from a ' +
  'running sandbox with POST /v1/sandboxes/{sandbox_id}/create-template';
const tags = 'Tags of templates are not supported: a template has one image';
const snapshots =
  'Snapshots are not supported here: POST /v1/sandboxes/{sandbox_id}/create-template makes a template from the disk of a ' +
  'running sandbox';
const volumes = 'Volumes are not supported: /v1 mounts buckets of object storage into a sandbox';
const secrets = 'Secrets of egress rules are not supported: give values to a sandbox as environment variables';
const keys = 'API keys are managed with /v1/api-keys';
const teamMetrics = 'Metrics of a team are not supported: GET /v1/usage/analytics has the usage of an account';
const operators = 'This route of operators of E2B is not supported: operators use /v1 and `npm run admin`';

/** Requests that E2B's platform answers and this one refuses, each with the reason for its caller. */
export const refusedRoutes: readonly {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  url: string;
  why: string;
}[] = [
  { method: 'PUT', url: '/sandboxes/:sandbox/network', why: `A network configuration ${noNetworkRules}` },
  { method: 'POST', url: '/sandboxes/:sandbox/fork', why: 'Forks of sandboxes are not supported' },
  { method: 'POST', url: '/sandboxes/:sandbox/snapshots', why: snapshots },
  { method: 'GET', url: '/snapshots', why: snapshots },
  { method: 'GET', url: '/sandboxes/metrics', why: 'Ask for the metrics of one sandbox at a time' },
  { method: 'POST', url: '/templates', why: builds },
  { method: 'POST', url: '/v2/templates', why: builds },
  { method: 'POST', url: '/v3/templates', why: builds },
  { method: 'POST', url: '/templates/:template', why: builds },
  { method: 'GET', url: '/templates/:template/files/:hash', why: builds },
  { method: 'POST', url: '/templates/:template/builds/:build', why: builds },
  { method: 'POST', url: '/v2/templates/:template/builds/:build', why: builds },
  { method: 'GET', url: '/templates/:template/builds/:build/status', why: builds },
  { method: 'GET', url: '/templates/:template/builds/:build/logs', why: builds },
  { method: 'GET', url: '/v2/templates', why: 'Use GET /templates, which lists all templates' },
  ...(['/templates/:template', '/v2/templates/:template'] as const).map((url) => ({
    method: 'PATCH' as const,
    url,
    why: 'The visibility of a template is changed with PUT /v1/templates/{template_id}',
  })),
  { method: 'POST', url: '/templates/tags', why: tags },
  { method: 'DELETE', url: '/templates/tags', why: tags },
  { method: 'GET', url: '/templates/:template/tags', why: tags },
  { method: 'GET', url: '/volumes', why: volumes },
  { method: 'POST', url: '/volumes', why: volumes },
  { method: 'GET', url: '/volumes/:volume', why: volumes },
  { method: 'DELETE', url: '/volumes/:volume', why: volumes },
  { method: 'GET', url: '/secrets', why: secrets },
  { method: 'POST', url: '/secrets', why: secrets },
  { method: 'GET', url: '/secrets/:secret', why: secrets },
  { method: 'POST', url: '/secrets/:secret', why: secrets },
  { method: 'DELETE', url: '/secrets/:secret', why: secrets },
  { method: 'GET', url: '/api-keys', why: keys },
  { method: 'POST', url: '/api-keys', why: keys },
  { method: 'PATCH', url: '/api-keys/:key', why: keys },
  { method: 'DELETE', url: '/api-keys/:key', why: keys },
  { method: 'POST', url: '/access-tokens', why: keys },
  { method: 'DELETE', url: '/access-tokens/:token', why: keys },
  { method: 'GET', url: '/teams/:team/metrics', why: teamMetrics },
  { method: 'GET', url: '/teams/:team/metrics/max', why: teamMetrics },
  { method: 'GET', url: '/nodes', why: operators },
  { method: 'GET', url: '/nodes/:node', why: operators },
  { method: 'POST', url: '/nodes/:node', why: operators },
];

/** Answers each of them with 501 and its reason. */
export function refuseTheRest(api: Api): void {
  for (const { method, url, why } of refusedRoutes) {
    api.route({
      method,
      url: e2bPrefix + url,
      config: { access: anyUser('none') },
      schema: { hide: true, ...(method !== 'GET' && { body: z.unknown() }) },
      handler: async () => {
        throw notSupported(why);
      },
    });
  }
}
