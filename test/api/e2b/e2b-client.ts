import type { InjectOptions } from 'fastify';
import { z } from 'zod';
import type { Json } from '../contract-client.ts';
import type { Caller, TestApi } from '../test-api.ts';

export interface E2bReply {
  status: number;
  headers: Record<string, unknown>;
  /** Null without a body. */
  body: Json;
}

interface E2bRequest {
  body?: unknown;
  headers?: Record<string, string>;
  /** The default has the path under `/e2b`. */
  host?: string;
}

/** What the SDKs of E2B read in a failed reply. */
const failure = z.strictObject({ code: z.int(), message: z.string().min(1) });

/** Sends requests as SDKs of E2B do. Every failed reply must have their form, and every successful one its shape. */
export async function sendE2b(
  api: TestApi,
  caller: Pick<Caller, 'key'> | null,
  method: string,
  path: string,
  { body, headers, host }: E2bRequest = {},
): Promise<E2bReply> {
  const options: InjectOptions = {
    method: method as 'GET',
    url: host === undefined ? `/e2b${path}` : path,
    headers: { ...(caller && { 'x-api-key': caller.key }), ...(host !== undefined && { host }), ...headers },
  };
  if (body !== undefined) {
    options.payload = typeof body === 'string' ? body : JSON.stringify(body);
    options.headers = { 'content-type': 'application/json', ...options.headers };
  }
  const raw = await api.app.inject(options);
  const reply = { status: raw.statusCode, headers: raw.headers, body: raw.body === '' ? null : raw.json() };
  if (!raw.headers['x-request-id']) throw new Error(`${method} ${path}: no X-Request-Id`);
  if (reply.status >= 400) {
    if (failure.parse(reply.body).code !== reply.status) throw new Error(`${method} ${path}: ${raw.body}`);
    return reply;
  }
  const shape = shapeOf(method, path.split('?', 1)[0]!);
  if (shape === null) throw new Error(`${method} ${path} has no shape`);
  if (reply.status === 204 ? shape !== 'no content' || reply.body !== null : shape === 'no content') {
    throw new Error(`${method} ${path} answered ${reply.status}: ${raw.body}`);
  }
  if (shape !== 'no content') shape.parse(reply.body);
  return reply;
}

// The fields that the OpenAPI document of E2B requires, and those that the SDKs and the command line read.

const time = z.iso.datetime();
const sandbox = z.object({
  ...{ templateID: z.string(), sandboxID: z.string(), clientID: z.string(), alias: z.string() },
  envdVersion: z.string().regex(/^\d+\.\d+\.\d+$/),
});
const connected = sandbox.extend({
  envdAccessToken: z.string().optional(),
  trafficAccessToken: z.string().optional(),
  domain: z.string(),
});
const listed = sandbox.extend({
  ...{ startedAt: time, endAt: time, cpuCount: z.int().min(1), memoryMB: z.int().min(128), diskSizeMB: z.int().min(0) },
  ...{ metadata: z.record(z.string(), z.string()), state: z.enum(['running', 'paused']) },
});
const detail = listed.extend({
  envdAccessToken: z.string().optional(),
  domain: z.string(),
  allowInternetAccess: z.boolean(),
  lifecycle: z.object({ autoResume: z.boolean(), onTimeout: z.enum(['kill', 'pause']) }),
});
const metric = z.object({
  ...{ timestamp: time, timestampUnix: z.int(), cpuCount: z.int(), cpuUsedPct: z.number() },
  ...{ memUsed: z.int(), memTotal: z.int(), memCache: z.int(), diskUsed: z.int(), diskTotal: z.int() },
});
const logEntry = z.object({
  ...{ timestamp: time, message: z.string(), level: z.enum(['debug', 'info', 'warn', 'error']) },
  fields: z.record(z.string(), z.string()),
});
const buildStatus = z.enum(['building', 'waiting', 'ready', 'error']);
const template = z.object({
  ...{ templateID: z.string(), public: z.boolean(), aliases: z.array(z.string()), names: z.array(z.string()) },
  ...{ createdAt: time, updatedAt: time, lastSpawnedAt: time.nullable(), spawnCount: z.int() },
});
const sizes = { cpuCount: z.int().min(1), memoryMB: z.int().min(128), diskSizeMB: z.int().min(0) };
const listedTemplate = template.extend({
  ...{ ...sizes, buildID: z.string(), buildCount: z.int(), buildStatus, envdVersion: z.string() },
  createdBy: z.object({ id: z.string(), email: z.string().nullable() }).nullable(),
});
const build = z.object({
  ...{ ...sizes, buildID: z.uuid(), status: buildStatus, createdAt: time, updatedAt: time },
});

const shapes: Readonly<Record<string, z.ZodType | 'no content'>> = {
  'POST /sandboxes': connected,
  'POST /v2/sandboxes': connected,
  'GET /sandboxes': z.array(listed),
  'GET /v2/sandboxes': z.array(listed),
  'GET /sandboxes/{id}': detail,
  'DELETE /sandboxes/{id}': 'no content',
  'POST /sandboxes/{id}/connect': connected,
  'POST /v2/sandboxes/{id}/connect': connected,
  'POST /sandboxes/{id}/resume': connected,
  'POST /sandboxes/{id}/pause': 'no content',
  'POST /sandboxes/{id}/timeout': 'no content',
  'POST /sandboxes/{id}/refreshes': 'no content',
  'GET /sandboxes/{id}/metrics': z.array(metric),
  'GET /sandboxes/{id}/logs': z.object({
    logs: z.array(z.object({ timestamp: time, line: z.string() })),
    logEntries: z.array(logEntry),
  }),
  'GET /v2/sandboxes/{id}/logs': z.object({ logs: z.array(logEntry) }),
  'GET /templates': z.array(listedTemplate),
  'GET /templates/{id}': template.extend({ builds: z.array(build) }),
  'DELETE /templates/{id}': 'no content',
  'GET /templates/aliases/{id}': z.object({ templateID: z.string(), public: z.boolean() }),
  'GET /teams': z.array(z.object({ teamID: z.string(), name: z.string(), apiKey: z.string(), isDefault: z.boolean() })),
};

function shapeOf(method: string, path: string): z.ZodType | 'no content' | null {
  const asked = `${method} ${path}`;
  const found = Object.keys(shapes).filter((route) => new RegExp(`^${route.replaceAll('{id}', '[^/]+')}$`).test(asked));
  return shapes[found.sort((a, b) => a.split('{').length - b.split('{').length)[0] ?? ''] ?? null;
}
