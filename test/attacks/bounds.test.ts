import type { Json } from '../api/contract-client.ts';
import { startApi, type TestApi } from '../api/test-api.ts';
import { processorSettings } from '../support/processor-settings.ts';

/** All input of callers has limits: they are read from the document, and tested on every route. */
/** More than any route accepts. */
const tooManyBytes = 4 * 1024 * 1024;
const longestList = 1000;
let api: TestApi;
let operations: { name: string; method: string; template: string; operation: Json }[];

beforeAll(async () => {
  api = await startApi({ env: { PLATFORM_RATE_LIMIT_PER_KEY: '0', ...processorSettings() } });
  operations = Object.entries<Json>(api.client.document.paths).flatMap(([template, item]) =>
    Object.entries<Json>(item).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${template}`,
      method: method.toUpperCase(),
      template,
      operation,
    })),
  );
});
afterAll(() => api.stop());

const concrete = (template: string) => template.replaceAll(/\{[^}]+\}/g, 'x');

test('every list limits the size of a page', async () => {
  const lists = operations.filter(({ operation }) =>
    (operation.parameters ?? []).some((each: Json) => each.in === 'query' && each.name === 'limit'),
  );
  expect(lists.length).toBeGreaterThan(3);
  const webhook = { url: 'https://example.com/', event_types: ['template.*'] };
  const { endpoint_id: endpointId } = (await api.send(api.root, 'POST', '/v1/webhooks', webhook)).body.data;
  const { sandbox_id: sandboxId } = (await api.send(api.root, 'POST', '/v1/sandboxes')).body.data;
  const ids: Record<string, string> = {
    project_id: api.root.projectId,
    endpoint_id: endpointId,
    sandbox_id: sandboxId,
  };
  for (const { name, template, operation } of lists) {
    const url = template.replaceAll(/\{(\w+)\}/g, (_all, id) => ids[id]!);
    for (const parameter of operation.parameters.filter((each: Json) => ['limit', 'page_size'].includes(each.name))) {
      const { status, body } = await api.send(api.root, 'GET', `${url}?${parameter.name}=1000000`);
      expect([name, status]).toEqual([name, 200]);
      expect((body.data.pagination ?? body.data).limit).toBeLessThanOrEqual(longestList);
    }
  }
});

test('a reply with a list in it is a page, or a list that cannot grow', () => {
  const pageless = operations.flatMap(({ name, method, operation }) => {
    const data = operation.responses['200']?.content?.['application/json']?.schema?.properties?.data;
    const lists = Object.entries<Json>(data?.properties ?? {}).filter(([, each]) => each.type === 'array');
    return method === 'GET' && lists.length > 0 && !data.properties.pagination ? [name] : [];
  });
  // Plans come from one file, identity providers from a setting, regions and hosts from the operator, queues of workers
  // and types of events from the code; metrics are thinned to a number of points; of events, deliveries and billing
  // periods the newest are shown, of differences of money the first; an account has few payment methods.
  const bounded = new Set([
    'GET /v1/user-management/plans',
    'GET /v1/auth/providers',
    'GET /v1/payment/methods',
    'GET /v1/platform-regions',
    'GET /v1/admin/hosts',
    'GET /v1/admin/workers',
    'GET /v1/admin/reconciliations/latest',
    'GET /v1/sandboxes/{sandbox_id}/metrics',
    'GET /v1/events',
    'GET /v1/webhooks/event-types',
    'GET /v1/webhooks/{endpoint_id}/deliveries',
    'GET /v1/billing/periods',
  ]);
  expect(pageless.filter((name) => !bounded.has(name))).toEqual([]);
});

test('every text, number and list in a body has a bound', () => {
  const unbounded: string[] = [];
  const walk = (schema: Json, where: string) => {
    if (schema.$ref) return walk(api.client.document.components.schemas[schema.$ref.split('/').at(-1)], where);
    const kinds = [schema.type].flat();
    const isFixed = schema.enum !== undefined || schema.const !== undefined;
    if (kinds.includes('string') && !isFixed && schema.maxLength === undefined && schema.format === undefined)
      unbounded.push(where);
    if (kinds.includes('array') && schema.maxItems === undefined) unbounded.push(where);
    if ((kinds.includes('integer') || kinds.includes('number')) && !isFixed && schema.maximum === undefined)
      unbounded.push(where);
    for (const each of [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])]) walk(each, where);
    for (const [key, each] of Object.entries<Json>(schema.properties ?? {})) walk(each, `${where}.${key}`);
    if (schema.items && typeof schema.items === 'object') walk(schema.items, `${where}[]`);
  };
  for (const { name, operation } of operations) {
    const body = operation.requestBody?.content['application/json']?.schema;
    if (body) walk(body, name);
  }
  expect(unbounded).toEqual([]);
});

test('every route with a body refuses one that is too large without reading it', async () => {
  const padding = JSON.stringify({ name: 'x'.repeat(tooManyBytes) });
  const taking = operations.filter(({ method }) => method !== 'GET' && method !== 'HEAD');
  expect(taking.length).toBeGreaterThan(10);
  for (const { name, method, template } of taking) {
    const reply = await api.app.inject({
      method: method as 'POST',
      url: concrete(template),
      headers: { 'x-api-key': api.root.key, 'content-type': 'application/json' },
      payload: padding,
    });
    expect([name, reply.statusCode, reply.json().code]).toEqual([name, 413, 'payload_too_large']);
  }
});
