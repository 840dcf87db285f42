import type { ExecEvent } from './event-ring.ts';

/** The first thing a reader hears; browsers reconnect after `retry` milliseconds. Data must not be empty for them. */
export const readyFrame = 'retry: 1000\nevent: ready\ndata: {}\n\n';

/** An event as server-sent events have it (section 6.2). Its id names the run too, as a reader may come back later. */
export function eventFrame(runId: string, event: ExecEvent): string {
  return `id: ${runId}-${event.sequence}\nevent: ${event.type}\ndata: ${JSON.stringify(payload(event))}\n\n`;
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
