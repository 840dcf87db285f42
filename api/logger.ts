import { type DestinationStream, type Logger, pino } from 'pino';
import { logDestination } from '../platform/config/log-destination.ts';

/** The API's log: one JSON line per entry, without the callers' secrets. */
export function createApiLogger(level: string, destination?: DestinationStream): Logger {
  return pino(
    {
      level,
      name: 'api',
      redact: { paths: ['*.authorization', '*.api_key', '*["x-api-key"]', '*.envd_access_token'], censor: '[secret]' },
    },
    destination ?? logDestination(),
  );
}
