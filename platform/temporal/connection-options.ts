import { readFileSync } from 'node:fs';

/** The settings of the connection to Temporal, by name. */
export interface TemporalConnectionSettings {
  TEMPORAL_ADDRESS: string;
  TEMPORAL_TLS: boolean;
  TEMPORAL_TLS_CA_FILE?: string | undefined;
  TEMPORAL_TLS_CERT_FILE?: string | undefined;
  TEMPORAL_TLS_KEY_FILE?: string | undefined;
  TEMPORAL_TLS_SERVER_NAME?: string | undefined;
  TEMPORAL_API_KEY?: string | undefined;
}

/** Options for the connections of clients and of workers. */
export interface TemporalConnectionOptions {
  address: string;
  tls: boolean | TlsOptions;
  apiKey?: string;
}

interface TlsOptions {
  serverNameOverride?: string;
  serverRootCACertificate?: Uint8Array;
  clientCertPair?: { crt: Uint8Array; key: Uint8Array };
}

/**
 * An API key, and each TLS setting, turns TLS on, so that neither is ever sent unencrypted.
 * @throws when a file is unreadable
 */
export function temporalConnectionOptions(settings: TemporalConnectionSettings): TemporalConnectionOptions {
  const tls = tlsOptions(settings);
  const apiKey = settings.TEMPORAL_API_KEY;
  const isPlain = !settings.TEMPORAL_TLS && !apiKey && Object.keys(tls).length === 0;
  return {
    address: settings.TEMPORAL_ADDRESS,
    tls: isPlain ? false : tls,
    ...(apiKey && { apiKey }),
  };
}

function tlsOptions(settings: TemporalConnectionSettings): TlsOptions {
  const {
    TEMPORAL_TLS_CA_FILE: ca,
    TEMPORAL_TLS_CERT_FILE: certificate,
    TEMPORAL_TLS_KEY_FILE: key,
    TEMPORAL_TLS_SERVER_NAME: name,
  } = settings;
  return {
    ...(name && { serverNameOverride: name }),
    ...(ca && { serverRootCACertificate: readFileSync(ca) }),
    ...(certificate && key && { clientCertPair: { crt: readFileSync(certificate), key: readFileSync(key) } }),
  };
}
