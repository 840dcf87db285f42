import { Client, Connection } from '@temporalio/client';
import type { PlatformSecrets } from '../config/secrets.ts';
import { type TemporalConnectionSettings, temporalConnectionOptions } from './connection-options.ts';
import { createDataConverter } from './data-converter.ts';
import { requestIdInterceptor } from './request-id.ts';

export interface TemporalSettings extends TemporalConnectionSettings {
  TEMPORAL_NAMESPACE: string;
}

/**
 * Connects lazily: while Temporal is away, calls fail but the process runs.
 * @param requestIdOf returns the id of the current request, which is sent along
 */
export function createTemporalClient(
  settings: TemporalSettings,
  secrets: PlatformSecrets,
  requestIdOf: () => string | undefined = () => undefined,
): Client {
  const connection = Connection.lazy(temporalConnectionOptions(settings));
  return new Client({
    connection,
    namespace: settings.TEMPORAL_NAMESPACE,
    dataConverter: createDataConverter(secrets),
    interceptors: { workflow: [requestIdInterceptor(requestIdOf)] },
  });
}
