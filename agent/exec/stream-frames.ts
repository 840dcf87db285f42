import type { ExecEvent } from './event-ring.ts';

/** The first event of a stream. Browsers reconnect after `retry` milliseconds, and they drop events with empty data. */
export const readyFrame = 'retry: 1000\nevent: ready\ndata: {}\n\n';

/**
 * An event in the format of server-sent events. Its id contains the execution, so that a late reader can tell
 * executions apart.
 */
export function eventFrame(executionId: string, event: ExecEvent): string {
  return `id: ${executionId}-${event.sequence}\nevent: ${event.type}\ndata: ${JSON.stringify(payload(event))}\n\n`;
}

function payload(event: ExecEvent): object {
  switch (event.type) {
    case 'start':
      return { pid: event.pid };
    case 'end':
      return { exit_code: event.exitCode };
    case 'error':
      return { code: event.code, message: event.message };
    default:
      return { data_b64: event.bytes.toString('base64') };
  }
}
