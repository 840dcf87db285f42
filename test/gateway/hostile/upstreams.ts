import type net from 'node:net';
import { startRawUpstream, type UpstreamServer } from '../upstream-server.ts';
import { hostileReply, wellFormedReply } from './http1-replies.ts';
import { frame, headers, hostileCall, prefaceBytes, settings, wellFormedCall } from './http2-replies.ts';
import { SeededRandom } from './random.ts';

/** How long a server leaves its connection open after it has sent its reply. */
const lingerMs = 20;

/** A server of HTTP/1.1 whose reply is derived from the path: `/hostile/<seed>` or `/plain/<seed>`. */
export function startReplyUpstream(): Promise<UpstreamServer> {
  return startRawUpstream((socket) => {
    let received = '';
    socket.on('data', (bytes) => {
      received += bytes.toString('latin1');
      const path = /^[A-Z]+ \/(hostile|plain)\/(\d+)[\s\S]*\r\n\r\n/.exec(received);
      if (!path) return;
      received = '';
      const random = new SeededRandom(Number(path[2]));
      const reply = path[1] === 'hostile' ? hostileReply(random) : wellFormedReply(random);
      sendInPieces(socket, Buffer.from(reply, 'latin1'), random);
    });
  });
}

/** A gRPC server that writes raw frames. `replyTo` returns the frames of a call. */
export function startCallUpstream(
  replyTo: (streamId: number) => { reply: Buffer; random: SeededRandom; ends: boolean },
): Promise<UpstreamServer> {
  return startRawUpstream((socket) => {
    let received = Buffer.alloc(0);
    let isOpen = false;
    socket.on('data', (bytes) => {
      received = Buffer.concat([received, bytes]);
      if (!isOpen) {
        if (received.length < prefaceBytes) return;
        received = received.subarray(prefaceBytes);
        isOpen = true;
        socket.write(frame(settings, 0, 0));
      }
      while (received.length >= 9 && received.length >= 9 + received.readUIntBE(0, 3)) {
        const type = received.readUInt8(3);
        const streamId = received.readUInt32BE(5);
        received = received.subarray(9 + received.readUIntBE(0, 3));
        if (type !== headers) continue;
        const { reply, random, ends } = replyTo(streamId);
        if (ends) sendInPieces(socket, reply, random);
        else socket.write(reply);
      }
    });
  });
}

export function createCall(mode: 'hostile' | 'plain', random: SeededRandom, streamId: number): Buffer {
  return mode === 'hostile' ? hostileCall(random, streamId) : wellFormedCall(random, streamId);
}

function sendInPieces(socket: net.Socket, bytes: Buffer, random: SeededRandom): void {
  const cut = random.chance(0.5) ? random.below(bytes.length + 1) : bytes.length;
  const resets = random.chance(0.1);
  socket.write(bytes.subarray(0, cut));
  setImmediate(() => {
    socket.write(bytes.subarray(cut));
    setTimeout(() => (resets ? reset(socket) : socket.end()), lingerMs);
  });
}

/**
 * Ends a connection with a reset. While a socket sends its FIN, Node cannot reset it and leaks its handle: such a
 * socket is closed in the ordinary way.
 */
function reset(socket: net.Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}
