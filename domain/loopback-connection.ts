/**
 * A server in a sandbox that listens only on a loopback address is reached through the sandbox's agent: the platform
 * sends this head to the agent's port (`agent/BOOT.md`), and after the reply the connection is one to the server.
 */
export function loopbackHead(port: number, platformToken: string): string {
  return `CONNECT localhost:${port} HTTP/1.1\r\nHost: localhost:${port}\r\nX-Platform-Token: ${platformToken}\r\n\r\n`;
}

/** The agent's reply when the server accepted the connection. Any other reply is a refusal. */
export const loopbackReply = 'HTTP/1.1 200 OK\r\n\r\n';
