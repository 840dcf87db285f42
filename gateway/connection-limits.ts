/** Limits that all processes of a gateway share. Anything over a limit gets an error. There are no queues. */
export interface GatewayLimits {
  /** Connections of all clients. Further ones are closed on accept. */
  maxConnections: number;
  /** Connections of one client: an IPv4 address or an IPv6 /64. 429. */
  maxConnectionsPerClient: number;
  /** Requests in progress of one client, including WebSockets. 429. */
  maxRequestsPerClient: number;
  /** Requests in progress to one sandbox, including WebSockets. 503. */
  maxRequestsPerSandbox: number;
  /** Requests in progress on one HTTP/2 connection. */
  maxStreamsPerConnection: number;
  /**
   * Bytes per second on one client's HTTP/2 connections to one process that belong neither to a body nor to an answered
   * request. Above this rate the client's connections are closed.
   */
  maxOverheadBytesPerSecond: number;
  maxHeaderBytes: number;
  /** Time until the header fields of a request, or a TLS handshake, are complete. */
  headersTimeoutMs: number;
  /**
   * Memory of one process for data that waits for slow sandboxes and clients. Above this limit the request with the
   * most waiting data is ended.
   */
  maxWaitingBytes: number;
  /** The same limit for the requests of one client. */
  maxWaitingBytesPerClient: number;
  /** How long a client may read nothing while bytes of a response or a WebSocket wait for it. */
  stalledClientTimeoutMs: number;
}

export const defaultLimits: GatewayLimits = {
  maxConnections: 20_000,
  maxConnectionsPerClient: 2000,
  maxRequestsPerClient: 1000,
  // Higher than the limit of one client, so that a single client cannot block the others.
  maxRequestsPerSandbox: 2000,
  maxStreamsPerConnection: 128,
  maxOverheadBytesPerSecond: 4 * 1024 * 1024,
  maxHeaderBytes: 32 * 1024,
  headersTimeoutMs: 10_000,
  maxWaitingBytes: 96 * 1024 * 1024,
  maxWaitingBytesPerClient: 32 * 1024 * 1024,
  stalledClientTimeoutMs: 120_000,
};
