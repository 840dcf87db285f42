import { Client, Connection } from '@temporalio/client';
import type { PlatformSecrets } from '../config/secrets.ts';
import { createDataConverter } from './data-converter.ts';

export interface TemporalSettings {
  TEMPORAL_ADDRESS: string;
  TEMPORAL_NAMESPACE: string;
  TEMPORAL_TLS: boolean;
}

/** Connects lazily: while Temporal is away calls fail, but the process runs. */
export function createTemporalClient(settings: TemporalSettings, secrets: PlatformSecrets): Client {
  const connection = Connection.lazy({ address: settings.TEMPORAL_ADDRESS, tls: settings.TEMPORAL_TLS });
  return new Client({
    connection,
    namespace: settings.TEMPORAL_NAMESPACE,
    dataConverter: createDataConverter(secrets),
  });
}
