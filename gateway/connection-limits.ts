/**
 * How much at once, in all processes of a gateway together. What is over it is refused with a clear answer; nothing
 * waits in a queue.
 */
export interface GatewayLimits {
  /** Connections from clients altogether; more are closed as they come. */
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
   * Bytes a second of all HTTP/2 connections of one client to one process that are no part of a body or of a request that
   * was answered. Its connections are ended.
   */
  maxOverheadBytesPerSecond: number;
  maxHeaderBytes: number;
  /** Until the header fields of a request, or a TLS handshake, have arrived. */
  headersTimeoutMs: number;
  /** Memory of one process that waits for sandboxes and clients that do not read. The largest request is ended. */
  maxWaitingBytes: number;
  /** The same, of one client's requests. */
  maxWaitingBytesPerClient: number;
  /** How long a client may stand still while a response or a WebSocket has bytes for it. */
  stalledClientTimeoutMs: number;
}

export const defaultLimits: GatewayLimits = {
  maxConnections: 20_000,
  maxConnectionsPerClient: 2000,
  maxRequestsPerClient: 1000,
  // More than one client may have, so that none alone keeps the others out.
  maxRequestsPerSandbox: 2000,
  maxStreamsPerConnection: 128,
  maxOverheadBytesPerSecond: 4 * 1024 * 1024,
  maxHeaderBytes: 32 * 1024,
  headersTimeoutMs: 10_000,
  maxWaitingBytes: 96 * 1024 * 1024,
  maxWaitingBytesPerClient: 32 * 1024 * 1024,
  stalledClientTimeoutMs: 120_000,
};
