import { z } from 'zod';
import type { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import { readSandboxEvents, type SandboxEvent } from '../../db/sandboxes/sandbox-events.ts';
import { e2bPrefix } from '../../domain/e2b-address.ts';
import { eventTypes } from '../../domain/event-types.ts';
import { anyUser } from '../access.ts';
import type { Api, ApiDependencies } from '../dependencies.ts';
import { readSandboxRow, sandboxPath } from '../routes/sandboxes/reply.ts';
import { optionalQuery, time } from '../schemas/fields.ts';

const levels = ['debug', 'info', 'warn', 'error'] as const;

const logEntry = z.object({
  timestamp: time(),
  level: z.enum(levels),
  message: z.string(),
  fields: z.record(z.string(), z.string()),
});
type LogEntry = z.output<typeof logEntry>;

const maxEntries = 1000;
/** Unix milliseconds. */
const milliseconds = () => optionalQuery(z.coerce.number().int().min(0).max(253_402_300_799_999));
const limit = () => optionalQuery(z.coerce.number().int().min(0));

/**
 * `GET /sandboxes/{sandboxID}/logs`: the events of the sandbox's life and, if it failed, the end of its command's output.
 * Also for a sandbox that has ended.
 */
export function getE2bSandboxLogs(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: `${e2bPrefix}/sandboxes/:sandbox_id/logs`,
    config: { access: anyUser('by_role') },
    schema: {
      hide: true,
      params: sandboxPath,
      querystring: z.object({ start: milliseconds(), limit: limit() }),
      response: {
        200: z.object({
          logs: z.array(z.object({ timestamp: time(), line: z.string() })),
          logEntries: z.array(logEntry),
        }),
      },
    },
    handler: async (request) => {
      const sandbox = await readSandboxRow(deps, request, request.params.sandbox_id);
      const { start, limit } = request.query;
      const logEntries = await readEntries(deps, sandbox, { from: start, isBackward: false, limit });
      // The command line of E2B reads each line as JSON.
      const logs = logEntries.map(({ timestamp, level, message, fields }) => ({
        timestamp,
        line: JSON.stringify({ level, message, ...fields }),
      }));
      return { logs, logEntries };
    },
  });
}

/** `GET /v2/sandboxes/{sandboxID}/logs`: the same entries, in both directions, by level and by text. */
export function searchE2bSandboxLogs(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: `${e2bPrefix}/v2/sandboxes/:sandbox_id/logs`,
    config: { access: anyUser('by_role') },
    schema: {
      hide: true,
      params: sandboxPath,
      querystring: z.object({
        cursor: milliseconds(),
        limit: limit(),
        direction: optionalQuery(z.enum(['forward', 'backward'])),
        level: optionalQuery(z.enum(levels)),
        search: optionalQuery(z.string().max(256)),
      }),
      response: { 200: z.object({ logs: z.array(logEntry) }) },
    },
    handler: async (request) => {
      const sandbox = await readSandboxRow(deps, request, request.params.sandbox_id);
      const { cursor, direction, level, search, limit } = request.query;
      const range = { from: cursor, isBackward: direction === 'backward', limit, level, search };
      return { logs: await readEntries(deps, sandbox, range) };
    },
  });
}

interface LogRange {
  /** Unix milliseconds of the first entry, or going backward, of the newest. */
  from?: number | undefined;
  isBackward: boolean;
  limit?: number | undefined;
  /** The lowest level. */
  level?: LogEntry['level'] | undefined;
  /** A part of the message. */
  search?: string | undefined;
}

async function readEntries(deps: ApiDependencies, sandbox: Sandbox, range: LogRange): Promise<LogEntry[]> {
  const { from, isBackward, limit = maxEntries, level = 'debug', search = '' } = range;
  const at = from === undefined ? null : new Date(from);
  const events = await readSandboxEvents(deps.orm.em, sandbox.sandboxId, { at, isBackward, limit: maxEntries });
  const entries = events.flatMap((event) => {
    const ofEvent = entriesOf(event, sandbox);
    return isBackward ? ofEvent.reverse() : ofEvent;
  });
  return entries
    .filter((entry) => levels.indexOf(entry.level) >= levels.indexOf(level) && entry.message.includes(search))
    .slice(0, Math.min(limit, maxEntries));
}

const descriptions = new Map(eventTypes.map(({ type, description }) => [type, description]));

/** The entry of an event. For a failure also the lines that the sandbox's command wrote last. */
function entriesOf({ type, status, reason, at }: SandboxEvent, { failure }: Sandbox): LogEntry[] {
  const hasFailed = type === 'sandbox.failed';
  const entry: LogEntry = {
    timestamp: at,
    level: hasFailed ? 'error' : 'info',
    message: (hasFailed && failure?.message) || (descriptions.get(type) ?? type),
    fields: { logger: 'platform', event: type, status, ...(reason !== null && { reason }) },
  };
  if (!hasFailed || !failure) return [entry];
  const lines = failure.commandOutput.split('\n').filter((line) => line.trim() !== '');
  const output = lines.map(
    (message): LogEntry => ({ timestamp: at, level: 'info', message, fields: { logger: 'command' } }),
  );
  return [...output, entry];
}
