import { flag, text, textOr } from './field-types.ts';

/** How processes reach Temporal, and the worker deployment of control workers. */
export const temporalSettings = {
  TEMPORAL_ADDRESS: textOr('127.0.0.1:7233'),
  TEMPORAL_NAMESPACE: textOr('default'),
  /** The address of the Web UI, which is only shown to people. Empty: no address is shown. */
  TEMPORAL_UI_URL: text(),
  /**
   * The Temporal worker deployment of the control workers. It gives them versions, so that an upgrade starts new workers
   * beside the old ones (docs/production.md). Empty: workers have no versions, and an upgrade replaces all of them at once.
   */
  PLATFORM_WORKER_DEPLOYMENT: text().refine(
    (name) => name === undefined || /^[\w-]{1,100}$/.test(name),
    'must be letters, digits, - and _',
  ),
  /** `1` turns on TLS to Temporal. Each of the following settings also turns it on. */
  TEMPORAL_TLS: flag(false),
  /** PEM file of the CA of Temporal's certificate. Empty: the system's CAs. */
  TEMPORAL_TLS_CA_FILE: text(),
  /** PEM files of the client certificate. Empty: none. */
  TEMPORAL_TLS_CERT_FILE: text(),
  TEMPORAL_TLS_KEY_FILE: text(),
  /** The name in Temporal's certificate. Empty: that of TEMPORAL_ADDRESS. */
  TEMPORAL_TLS_SERVER_NAME: text(),
  /** An API key of Temporal Cloud. Empty: none. */
  TEMPORAL_API_KEY: text(),
};
