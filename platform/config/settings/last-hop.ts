import { text } from './field-types.ts';

/** Mutual TLS between the machines of a platform (docs/production.md). */
export const lastHopSettings = {
  /**
   * For several machines without routes into each other's sandbox networks. On a host: the `host:port` at which its gateway
   * accepts mutual TLS from gateways and APIs of other machines; the gateway listens on that port of every address.
   * Empty: none.
   */
  PLATFORM_LAST_HOP_ADDRESS: text().refine(
    (address) => address === undefined || /^([^\s/:@]+|\[[0-9a-f:.]+\]):[1-9]\d{0,4}$/i.test(address),
    'must be host:port',
  ),
  /** On a host's gateway: the file with the join token of that host (`ops/operator/last-hop-token.ts`). */
  PLATFORM_LAST_HOP_HOST_TOKEN_FILE: text(),
  /** On every gateway and API: the file with its join token. Empty: the process connects to sandboxes directly. */
  PLATFORM_LAST_HOP_GATEWAY_TOKEN_FILE: text(),
  /**
   * On control workers only: the folder of the CA that issues certificates for these connections. It is created when it is
   * missing. Keep it away from hosts. Empty: this process issues no certificates.
   */
  PLATFORM_LAST_HOP_CA_DIR: text(),
};
