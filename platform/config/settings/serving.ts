import { z } from 'zod';
import { emptyIsUnset, flag, port, positive, text, textOr, whole } from './field-types.ts';

/** Where the API and the gateway listen, their public names, and the limits of their callers. */
export const servingSettings = {
  PLATFORM_API_HOST: textOr('127.0.0.1'),
  PLATFORM_API_PORT: port(7080),
  /**
   * The API's address as clients see it, and where the gateway reaches it for `api.<base domain>`, unless that is this
   * address. Empty: made from host and port.
   */
  PLATFORM_URL: text(),
  PLATFORM_GATEWAY_HOST: textOr('127.0.0.1'),
  PLATFORM_GATEWAY_PORT: port(7081),
  /** How many processes serve the gateway. When one ends, only its own connections end. */
  PLATFORM_GATEWAY_PROCESSES: z.preprocess(emptyIsUnset, z.coerce.number().int().min(1).max(64).default(2)),
  /** Sandboxes are `<sandbox_id>.<base domain>[:port]`. */
  PLATFORM_BASE_DOMAIN: textOr('sandbox.localhost'),
  /** The port clients see in `sandbox_domain`. Empty: the gateway's own; 443 and 80 are left out of the domain. */
  PLATFORM_GATEWAY_PUBLIC_PORT: z.preprocess(emptyIsUnset, z.coerce.number().int().optional()),
  /** PEM files of the gateway's certificate. Empty: a certificate of a local CA made in the data folder. */
  PLATFORM_TLS_CERT_FILE: text(),
  PLATFORM_TLS_KEY_FILE: text(),
  /** Requests a minute for each API key, and for each address that sends no valid key. 0 turns a limit off. */
  PLATFORM_RATE_LIMIT_PER_KEY: whole(6000),
  PLATFORM_RATE_LIMIT_PER_ADDRESS: whole(600),
  /** The longest time that a command of `POST …/exec` runs. It also ends at its sandbox's timeout. */
  PLATFORM_EXEC_DEADLINE_SECONDS: positive(3600),
  /** Exec streams that may be open at once in one process of the API: of one user, and of one sandbox. */
  PLATFORM_EXEC_STREAMS_PER_CALLER: positive(64),
  PLATFORM_EXEC_STREAMS_PER_SANDBOX: positive(16),
  /**
   * Connections that one address (or IPv6 /64) may have open to the API. Not counted with PLATFORM_TRUST_PROXY. Also its
   * requests in progress at `api.<base domain>` of the gateway, which are always counted.
   */
  PLATFORM_API_MAX_CONNECTIONS_PER_CLIENT: positive(500),
  /** The most connections that are open to the gateway: in all, and from one address (or IPv6 /64). */
  PLATFORM_GATEWAY_MAX_CONNECTIONS: positive(20_000),
  PLATFORM_GATEWAY_MAX_CONNECTIONS_PER_CLIENT: positive(2000),
  /** The most requests in progress at the gateway, including WebSockets: from one address, and to one sandbox. */
  PLATFORM_GATEWAY_MAX_REQUESTS_PER_CLIENT: positive(1000),
  PLATFORM_GATEWAY_MAX_REQUESTS_PER_SANDBOX: positive(2000),
  /** Trust `X-Forwarded-For` of a proxy in front. */
  PLATFORM_TRUST_PROXY: flag(false),
};
