import { Code } from '@connectrpc/connect';
import { ConnectError } from './connect-error.ts';
import type { AgentCall } from './service.ts';

const defaultMs = 30_000;
const maxMs = 3_600_000;

/**
 * Milliseconds of silence before a stream sends a keepalive, from the `Keepalive-Ping-Interval` header in seconds.
 * @throws {ConnectError} `invalid_argument` when it is not a positive number
 */
export function keepaliveMs(call: AgentCall): number {
  const given = call.header('keepalive-ping-interval');
  if (given === undefined || given === '') return defaultMs;
  const seconds = Number(given);
  if (!(seconds > 0)) throw new ConnectError('Keepalive-Ping-Interval must be a positive number', Code.InvalidArgument);
  return Math.min(seconds * 1000, maxMs);
}
