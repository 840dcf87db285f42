import { Client, Connection } from '@temporalio/client';
import type { PlatformSecrets } from '../config/secrets.ts';
import { clientConnectionOptions } from './client-connection-options.ts';
import type { TemporalConnectionSettings } from './connection-options.ts';
import { createDataConverter } from './data-converter.ts';
import { requestIdInterceptor } from './request-id.ts';
import { updateExpiry } from './update-expiry.ts';

export interface TemporalSettings extends TemporalConnectionSettings {
  TEMPORAL_NAMESPACE: string;
}

/**
 * Connects lazily: while Temporal is away, calls fail but the process runs. Each call has a deadline.
 * @param currentRequestId returns the id of the current request, which is sent along
 */
export function createTemporalClient(
  settings: TemporalSettings,
  secrets: PlatformSecrets,
  currentRequestId: () => string | undefined = () => undefined,
): Client {
  const connection = Connection.lazy(clientConnectionOptions(settings));
  const dataConverter = createDataConverter(secrets);
  return new Client({
    connection,
    namespace: settings.TEMPORAL_NAMESPACE,
    dataConverter,
    interceptors: { workflow: [requestIdInterceptor(currentRequestId), updateExpiry(dataConverter)] },
  });
}
