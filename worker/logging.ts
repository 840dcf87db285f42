import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Logger } from 'pino';

/** Sends what the Temporal SDK logs through the process's own log. Before the first worker or connection, once. */
export function logTemporalThrough(logger: Logger): void {
  Runtime.install({
    logger: new DefaultLogger('WARN', ({ level, message, meta }) => {
      // A host worker has activities only, as it should.
      if (message.startsWith('No workflows registered')) return;
      logger[level.toLowerCase() as 'trace' | 'debug' | 'info' | 'warn' | 'error']({ ...meta }, message);
    }),
  });
}
