/**
 * Limits that all processes of a gateway share. Anything over a limit is refused with an error; nothing waits in a
 * queue.
 */
export interface GatewayLimits {
  /** Connections of all clients; more are closed on accept. */
  maxConnections: number;
  /** Connections of one client: an IPv4 address or an IPv6 /64. 429. */
  maxConnectionsPerClient: number;
  /** Requests under way, WebSockets included, of one client. 429. */
  maxRequestsPerClient: number;
  /** Requests under way, WebSockets included, to one sandbox. 503. */
  maxRequestsPerSandbox: number;
  /** Requests under way on one HTTP/2 connection. */
  maxStreamsPerConnection: number;
  /**
   * Bytes a second of one client's HTTP/2 connections to one process that belong neither to a body nor to an answered
   * request. Beyond the rate its connections are ended.
   */
  maxOverheadBytesPerSecond: number;
  maxHeaderBytes: number;
  /** Time until the header fields of a request, or a TLS handshake, are complete. */
  headersTimeoutMs: number;
  /**
   * Memory of one process that waits for sandboxes and clients that do not read. Beyond it the largest request is
   * ended.
   */
  maxWaitingBytes: number;
  /** The same, of one client's requests. */
  maxWaitingBytesPerClient: number;
  /** How long a client may read nothing while a response or a WebSocket has bytes for it. */
  stalledClientTimeoutMs: number;
}

export const defaultLimits: GatewayLimits = {
  maxConnections: 20_000,
  maxConnectionsPerClient: 2000,
  maxRequestsPerClient: 1000,
  // More than the limit of one client, so that no client alone keeps the others out.
  maxRequestsPerSandbox: 2000,
  maxStreamsPerConnection: 128,
  maxOverheadBytesPerSecond: 4 * 1024 * 1024,
  maxHeaderBytes: 32 * 1024,
  headersTimeoutMs: 10_000,
  maxWaitingBytes: 96 * 1024 * 1024,
  maxWaitingBytesPerClient: 32 * 1024 * 1024,
  stalledClientTimeoutMs: 120_000,
};
