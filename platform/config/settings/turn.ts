import { z } from 'zod';
import { emptyIsUnset, port, positive, text } from './field-types.ts';

/** The TURN server. */
export const turnServerSettings = {
  /** The TURN server's shared secret (coturn: `use-auth-secret`, `static-auth-secret`). Empty: there is none. */
  PLATFORM_TURN_SECRET: text(),
  /** The TURN server's address for browsers. */
  PLATFORM_TURN_PUBLIC_HOST: text(),
  PLATFORM_TURN_PUBLIC_PORT: port(3478),
  /** The TURN server's address for programs in sandboxes. They may reach it even in a private network. Empty: as for browsers. */
  PLATFORM_TURN_INTERNAL_HOST: text(),
  PLATFORM_TURN_INTERNAL_PORT: z.preprocess(emptyIsUnset, z.coerce.number().int().min(1).max(65535).optional()),
  PLATFORM_TURN_CREDENTIAL_TTL_SECONDS: positive(86_400),
  /** The port of the service that gives TURN credentials to a host's sandboxes; only those sandboxes reach its address. */
  PLATFORM_TURN_SERVICE_PORT: port(7083),
};
