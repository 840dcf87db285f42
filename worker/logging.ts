import { isNativeError } from 'node:util/types';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Logger } from 'pino';

/** Writes the log of the Temporal SDK into the process's own log. Call once, before the first worker or connection. */
export function logTemporalThrough(logger: Logger): void {
  Runtime.install({
    logger: new DefaultLogger('WARN', ({ level, message, meta }) => {
      // A host worker serves activities only.
      if (message.startsWith('No workflows registered')) return;
      const { error, ...fields } = { ...meta };
      // The workflow of a failed sandbox fails on purpose: no warning, and no stack.
      if (message === 'Workflow failed' && fields.workflowType === 'sandbox') {
        logger.info({ sandboxId: fields.workflowId }, isNativeError(error) ? error.message : 'The sandbox has failed');
        return;
      }
      const entry = isNativeError(error) ? { ...fields, err: plainly(error) } : { ...meta };
      logger[level.toLowerCase() as 'trace' | 'debug' | 'info' | 'warn' | 'error'](entry, message);
    }),
  });
}

/** Leaves out the fields that libraries add to their errors, such as a row or a request. */
function plainly({ name, message, stack }: Error): object {
  return { type: name, message, stack };
}
