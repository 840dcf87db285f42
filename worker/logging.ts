import { isNativeError } from 'node:util/types';
import { ApplicationFailure } from '@temporalio/common';
import { DefaultLogger, type LogEntry, Runtime } from '@temporalio/worker';
import type { Logger } from 'pino';
import { errorStatus, isErrorCode } from '../domain/errors.ts';
import { innerLoopbackAddress } from '../domain/outbound-addresses.ts';

type Level = 'trace' | 'debug' | 'info' | 'warn' | 'error';

/**
 * Installs the runtime of the Temporal SDK. It writes into the process's own log, and handles no signals. Call this
 * once, before the first worker or connection.
 * @param metricsPort the port of `innerLoopbackAddress` on which the SDK serves its own metrics; null: it collects none
 */
export function logTemporalThrough(logger: Logger, metricsPort: number | null): void {
  Runtime.install({
    // The process stops its workers itself. The SDK's handler swallows a signal during the start, and a worker then fails.
    shutdownSignals: [],
    ...(metricsPort !== null && {
      telemetryOptions: {
        metrics: {
          prometheus: {
            bindAddress: `${innerLoopbackAddress}:${metricsPort}`,
            countersTotalSuffix: true,
            unitSuffix: true,
            useSecondsForDurations: true,
          },
        },
      },
    }),
    logger: new DefaultLogger('WARN', (entry) => {
      const line = temporalLine(entry);
      if (line) logger[line.level](line.fields, line.message);
    }),
  });
}

/** The log line for an entry of the SDK's log. Null: the entry is dropped. */
export function temporalLine({
  level,
  message,
  meta,
}: Pick<LogEntry, 'level' | 'message' | 'meta'>): { level: Level; fields: object; message: string } | null {
  // A host worker only serves activities, so this warning is expected.
  if (message.startsWith('No workflows registered')) return null;
  const { error, ...fields } = { ...meta };
  // The workflow of a failed sandbox fails on purpose, so the line is no warning and has no stack.
  if (message === 'Workflow failed' && fields.workflowType === 'sandbox') {
    const text = isNativeError(error) ? error.message : 'The sandbox has failed';
    return { level: 'info', fields: { sandboxId: fields.workflowId }, message: text };
  }
  // A slow endpoint delays deliveries on purpose.
  if (error instanceof ApplicationFailure && error.type === 'endpoint_busy') return null;
  // A full host or a wrong bucket password is an expected answer to a caller, not a fault of the platform.
  if (isRefusal(error)) {
    const { workflowId, activityType } = fields;
    return {
      level: 'info',
      fields: { workflowId, activityType, code: error.type },
      message: `Refused: ${error.message}`,
    };
  }
  return {
    level: level.toLowerCase() as Level,
    fields: isNativeError(error) ? { ...fields, err: plainly(error) } : { ...meta },
    message,
  };
}

/** A failure with the code of an expected refusal. */
function isRefusal(error: unknown): error is ApplicationFailure {
  return error instanceof ApplicationFailure && isErrorCode(error.type) && errorStatus[error.type] !== 500;
}

/** Leaves out the fields that libraries add to their errors, such as a row or a request. */
function plainly({ name, message, stack }: Error): object {
  return { type: name, message, stack };
}
