import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Logger } from 'pino';

/** Sends what the Temporal SDK logs through the process's own log. Before the first worker or connection, once. */
export function logTemporalThrough(logger: Logger): void {
  Runtime.install({
    logger: new DefaultLogger('WARN', ({ level, message, meta }) => {
      // A host worker has activities only, as it should.
      if (message.startsWith('No workflows registered')) return;
      const { error, ...fields } = { ...meta };
      const told = error instanceof Error ? { ...fields, err: plainly(error) } : { ...meta };
      logger[level.toLowerCase() as 'trace' | 'debug' | 'info' | 'warn' | 'error'](told, message);
    }),
  });
}

/** Without what libraries hang on their errors: that may be a row, or a request. */
function plainly({ name, message, stack }: Error): object {
  return { type: name, message, stack };
}
