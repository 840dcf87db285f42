import type { Socket } from 'node:net';

/** Ends the parsing of a connection with an error. All values work except those of llhttp's `on_headers_complete`. */
const stopParsing = -1;

type OnIncoming = (...args: unknown[]) => number;

/**
 * Closes a connection whose client pipelines more requests than `isAllowed` accepts. Call this when Node's HTTP server
 * has the connection. Node emits every request of one read at once, up to 3,000 in 64 KiB, and keeps each with its
 * reply until the connection is closed: 200 such connections would take gigabytes. Node has no limit for that, and a
 * handler cannot stop the parser. So this wraps the parser's own callback, which is undocumented.
 * `test/api/http-server.test.ts` fails if a later version of Node calls it differently.
 */
export function limitPipelining(socket: Socket, isAllowed: () => boolean): void {
  const { parser } = socket as Socket & { parser?: { onIncoming?: OnIncoming } };
  const inner = parser?.onIncoming;
  if (!parser || !inner) return;
  parser.onIncoming = (...args) => {
    if (isAllowed()) return inner(...args);
    socket.destroy();
    return stopParsing;
  };
}
