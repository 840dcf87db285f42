import type { Settings } from './settings.ts';

/** The TURN server that sandboxes with WEBRTC ports use. */
export interface TurnSettings {
  /** Shared with the server (coturn's `static-auth-secret`). It is never in a reply and never in a sandbox. */
  secret: string;
  /** The address of the server for browsers. */
  publicAddress: { host: string; port: number };
  /** The address of the server for programs in sandboxes. */
  internalAddress: { host: string; port: number };
  credentialTtlSeconds: number;
  /** The port at which host workers give credentials to their sandboxes, on the host's address for sandboxes. */
  servicePort: number;
}

/** Null: no TURN server is configured. */
export function turnSettings(settings: Settings): TurnSettings | null {
  const { PLATFORM_TURN_SECRET: secret, PLATFORM_TURN_PUBLIC_HOST: host } = settings;
  if (!secret || !host) return null;
  const port = settings.PLATFORM_TURN_PUBLIC_PORT;
  return {
    secret,
    publicAddress: { host, port },
    internalAddress: {
      host: settings.PLATFORM_TURN_INTERNAL_HOST ?? host,
      port: settings.PLATFORM_TURN_INTERNAL_PORT ?? port,
    },
    credentialTtlSeconds: settings.PLATFORM_TURN_CREDENTIAL_TTL_SECONDS,
    servicePort: settings.PLATFORM_TURN_SERVICE_PORT,
  };
}
