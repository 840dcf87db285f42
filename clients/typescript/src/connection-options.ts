import { SandboxError } from './errors.ts';

/** The platform's addresses and the caller's key. Each has a default in the environment. */
export interface ConnectionOptions {
  /** URL of the API; `PLATFORM_URL`. */
  apiUrl?: string;
  /** An API key or an access token; `PLATFORM_API_KEY`. */
  apiKey?: string;
  /**
   * URL of the gateway; `PLATFORM_GATEWAY`. All requests to sandboxes go there, with the sandbox's name in `Host`.
   * Without it, the name of the sandbox is resolved. Names below `.localhost` use the host of `apiUrl`.
   */
  gatewayUrl?: string;
  agentLimits?: AgentLimits;
  /**
   * The time for each request that is not a stream or a transfer of files, with its retries. Default 120,000 ms; a create
   * waits for the start of the sandbox.
   */
  requestTimeoutMs?: number;
}

/** Limits for replies of sandboxes, for programs with several users: root in a sandbox can send bytes without end. */
export interface AgentLimits {
  /** Ends every request to a sandbox. */
  signal?: AbortSignal;
  /** The maximum size of one reply, message or file in memory. Default 64 MiB, and 1 GiB for files. */
  maxReplyBytes?: number;
}

export interface Connection {
  apiUrl: string;
  apiKey: string;
  gatewayUrl: string | null;
  agentLimits: AgentLimits;
  requestTimeoutMs: number;
}

const defaultRequestTimeoutMs = 120_000;

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
  const gatewayUrl = options.gatewayUrl ?? process.env.PLATFORM_GATEWAY;
  return {
    apiUrl: checkedUrl(apiUrl, 'apiUrl (PLATFORM_URL)').replace(/\/+$/, ''),
    // A key that was read from a file often ends with a line break, which HTTP refuses.
    apiKey: apiKey.trim(),
    gatewayUrl: gatewayUrl ? checkedUrl(gatewayUrl, 'gatewayUrl (PLATFORM_GATEWAY)') : null,
    agentLimits: options.agentLimits ?? {},
    requestTimeoutMs: options.requestTimeoutMs ?? defaultRequestTimeoutMs,
  };
}

function checkedUrl(url: string, name: string): string {
  if (/^https?:\/\//i.test(url) && URL.canParse(url)) return url;
  throw new SandboxError('not_configured', `${name} must be a URL like http://127.0.0.1:7080, not ${url}`);
}
