import type http from 'node:http';
import type { SandboxId } from '../../../domain/ids.ts';
import type { SandboxRoute } from '../../../gateway/routes.ts';
import { startHttpUpstream, startRawUpstream, type UpstreamServer } from '../upstream-server.ts';

const switchingProtocols =
  'HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n';
const bigBodyBytes = 2 ** 30;

export interface FloodedSandboxes {
  routes: Partial<SandboxRoute>[];
  stop(): Promise<void>;
}

/** The sandboxes that floods are sent to: one reads everything, one reads nothing, and one sends endlessly. */
export async function startFloodedSandboxes(): Promise<FloodedSandboxes> {
  const reading = await startHttpUpstream((request, response) => {
    request.resume().once('end', () => response.end('ok'));
    request.on('error', () => undefined);
  });
  reading.server.on('upgrade', (_request: http.IncomingMessage, socket) => {
    socket.on('error', () => undefined);
    socket.write(switchingProtocols);
    socket.resume();
  });
  const silent = await startRawUpstream((socket) => void socket.pause());
  const talking = await startRawUpstream((socket) => {
    socket.once('data', (head) => {
      const text = head.toString('latin1');
      const [start, piece] = /^upgrade: websocket/im.test(text)
        ? [switchingProtocols, Buffer.concat(Array(4096).fill(Buffer.from([0x82, 1, 120])))]
        : text.startsWith('GET /big')
          ? [`HTTP/1.1 200 OK\r\nContent-Length: ${bigBodyBytes}\r\n\r\n`, Buffer.alloc(65_536)]
          : ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', Buffer.from('1\r\nx\r\n'.repeat(4096))];
      socket.write(start);
      const talk = () => {
        if (!socket.destroyed && socket.write(piece)) setImmediate(talk);
      };
      socket.on('drain', talk);
      talk();
    });
  });
  const servers: [SandboxId, UpstreamServer][] = [
    ['sbx-reading', reading],
    ['sbx-silent', silent],
    ['sbx-talking', talking],
  ];
  return {
    routes: servers.map(([sandboxId, { address, port }]) => ({ sandboxId, address, agentPort: port })),
    async stop() {
      for (const [, server] of servers) await server.stop();
    },
  };
}
