import { type DestinationStream, type Logger, pino } from 'pino';

/** Postgres puts values of the row it refuses into these. */
const rowDetails = /\n - detail: .*/g;

/** The API's log: one JSON line an entry, without what callers keep secret. */
export function createApiLogger(level: string, destination?: DestinationStream): Logger {
  return pino(
    {
      level,
      name: 'api',
      redact: { paths: ['*.authorization', '*.api_key', '*["x-api-key"]', '*.envd_access_token'], censor: '[secret]' },
      serializers: {
        err: (error) => {
          const { detail, where, ...told } = pino.stdSerializers.err(error) as unknown as Record<string, unknown>;
          const plain = (text: unknown) => (typeof text === 'string' ? text.replaceAll(rowDetails, '') : text);
          return { ...told, message: plain(told.message), stack: plain(told.stack) };
        },
      },
    },
    destination ?? pino.destination(1),
  );
}
