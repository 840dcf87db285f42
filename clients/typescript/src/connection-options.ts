import { SandboxError } from './errors.ts';

/** Where the platform is and who calls it. Each has a default in the environment. */
export interface ConnectionOptions {
  /** URL of the API; `PLATFORM_URL`. */
  apiUrl?: string;
  /** An API key or an access token; `PLATFORM_API_KEY`. */
  apiKey?: string;
  /**
   * URL of the gateway; `PLATFORM_GATEWAY`. All requests to sandboxes go there, with the sandbox's name in `Host`. Without
   * one, the name of the sandbox is looked up; names below `.localhost` lead to the host of `apiUrl`.
   */
  gatewayUrl?: string;
}

export interface Connection {
  apiUrl: string;
  apiKey: string;
  gatewayUrl: string | null;
}

/** @throws {SandboxError} `not_configured` */
export function readConnection(options: ConnectionOptions): Connection {
  const apiUrl = options.apiUrl ?? process.env.PLATFORM_URL;
  const apiKey = options.apiKey ?? process.env.PLATFORM_API_KEY;
  if (!apiUrl || !apiKey) {
    const missing = apiUrl ? 'apiKey (PLATFORM_API_KEY)' : 'apiUrl (PLATFORM_URL)';
    throw new SandboxError(
      'not_configured',
      `The client needs ${missing}; the platform writes both to platform.env: set -a; . .data/platform.env; set +a`,
    );
  }
  return {
    apiUrl: apiUrl.replace(/\/+$/, ''),
    apiKey,
    gatewayUrl: options.gatewayUrl ?? process.env.PLATFORM_GATEWAY ?? null,
  };
}
