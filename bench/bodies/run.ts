import path from 'node:path';
import { TestStack } from '../../test/support/test-stack.ts';
import { UnlimitedApi } from '../../test/support/unlimited-api.ts';
import { inTurn, summarize } from '../statistics.ts';
import { holdAgainst, printTable, type Row } from '../table.ts';
import { ordinaryBody, worstBodies } from './worst-bodies.ts';

/**
 * How long the worst body of each size delays each route, compared with an ordinary body. `npm run bench -- bodies`;
 * `BENCH_BODIES=codec` selects routes.
 */
const times = 7;
/** Shorter delays cannot be measured. */
const resolutionMs = 1;
const pattern = new RegExp(process.env.BENCH_BODIES ?? '');

interface MeasuredRoute {
  method: string;
  path: string;
  url: string;
  bodyBytes: number;
}

interface Operation {
  'x-max-body-bytes'?: number;
  parameters?: { in: string; name: string; schema: { examples?: string[] }; example?: string }[];
}

const stack = await TestStack.listen();
process.env.TEST_STACK_SOCKET = stack.socket;
const api = await UnlimitedApi.start('enterprise', path.join(import.meta.dirname, 'delay-probe.mjs'));
try {
  const rows: Row[] = [];
  for (const route of await routesWithBodies()) {
    if (pattern.test(`${route.method} ${route.path}`)) rows.push(await measureRoute(route));
  }
  printTable('Event loop delay under the worst body of a route', rows);
} finally {
  await api.stop();
  await stack.stop();
}

/** Every route of the OpenAPI document that may have a body, and those that the document does not contain. */
async function routesWithBodies(): Promise<MeasuredRoute[]> {
  const { paths } = (await (await fetch(`${api.url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, Operation>>;
  };
  const documented = Object.entries(paths).flatMap(([template, operations]) =>
    Object.entries(operations).flatMap(([method, operation]) => {
      const bodyBytes = operation['x-max-body-bytes'];
      if (!bodyBytes) return [];
      return {
        method: method.toUpperCase(),
        path: template,
        url: api.url + withExamples(template, operation),
        bodyBytes,
      };
    }),
  );
  const hidden = ['decode', 'encode'].map((direction) => ({
    method: 'POST',
    path: `/codec/{token}/${direction}`,
    url: `${api.url}/codec/${api.codecToken}/${direction}`,
    bodyBytes: 4 * 1024 * 1024,
  }));
  return [...documented, ...hidden];
}

/** Parameters of the right format, because a wrong one would be refused before the body is read. */
function withExamples(template: string, { parameters = [] }: Operation): string {
  return template.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const parameter = parameters.find((each) => each.in === 'path' && each.name === name);
    const example = parameter?.example ?? parameter?.schema.examples?.[0];
    if (example === undefined) throw new Error(`${name} of ${template} has no example`);
    return String(example);
  });
}

async function measureRoute(route: MeasuredRoute): Promise<Row> {
  const bytes = route.bodyBytes - 16;
  const ordinary = Math.max(resolutionMs, await longestDelay(route, ordinaryBody(bytes)));
  let worst = { name: 'nothing is seen', delayMs: 0 };
  for (const { name, text } of worstBodies(bytes)) {
    const delayMs = await longestDelay(route, text);
    if (delayMs > worst.delayMs) worst = { name, delayMs };
  }
  return {
    measure: `${route.method} ${route.path}, ${route.bodyBytes / 1024} KiB: ${worst.name}`,
    value: worst.delayMs.toFixed(1),
    unit: 'ms',
    goal: holdAgainst(worst.delayMs, 3 * ordinary, 'ms'),
  };
}

/** The median, over some requests, of the longest delay during each request. */
async function longestDelay({ method, url }: MeasuredRoute, body: string): Promise<number> {
  JSON.parse(body);
  const delays = await inTurn(times, async () => {
    await api.ask();
    const headers = { 'x-api-key': api.key, 'content-type': 'application/json' };
    const reply = await fetch(url, { method, headers, body });
    await reply.arrayBuffer();
    // 503: there is no host.
    if (reply.status >= 500 && reply.status !== 503) throw new Error(`${method} ${url} answered ${reply.status}`);
    return api.ask<number>();
  });
  return summarize(delays).p50;
}
