import type { Flood } from '../../gateway/floods/flooding-clients.ts';

const blockBytes = 64 * 1024;
const head = (method: string, path: string, ...fields: string[]) =>
  Buffer.from(`${[`${method} ${path} HTTP/1.1`, 'Host: localhost', ...fields].join('\r\n')}\r\n\r\n`);
const again = (bytes: Buffer) => {
  const block = Buffer.concat(Array(Math.ceil(blockBytes / bytes.length)).fill(bytes));
  return () => block;
};
const none = Buffer.alloc(0);
const json = 'Content-Type: application/json';
const chunked = (path: string) => head('POST', path, json, 'Transfer-Encoding: chunked');
const request = head('GET', '/v1/sandboxes');
const continued = head('POST', '/v1/auth/sign-in', json, 'Expect: 100-continue', 'Content-Length: 2');

/** Floods that any client can send to the API, without a key. */
export const apiFloods: readonly Flood[] = [
  { name: 'pipelined requests', connections: 8, begin: none, repeat: again(request), reads: true },
  { name: 'pipelined requests, answers unread', connections: 200, begin: none, repeat: again(request), reads: false },
  {
    name: 'chunks of single bytes without a key',
    connections: 200,
    begin: chunked('/v1/sandboxes'),
    repeat: again(Buffer.from('1\r\nx\r\n')),
    reads: true,
  },
  {
    name: 'chunks of single bytes to a public route',
    connections: 200,
    begin: chunked('/v1/auth/sign-in'),
    repeat: again(Buffer.from('1\r\nx\r\n')),
    reads: true,
  },
  {
    name: 'endless chunk extensions',
    connections: 200,
    begin: Buffer.concat([chunked('/v1/auth/sign-in'), Buffer.from('1;')]),
    repeat: again(Buffer.from('x'.repeat(1024))),
    reads: true,
  },
  {
    name: 'endless heads',
    connections: 200,
    begin: Buffer.from('GET / HTTP/1.1\r\n'),
    repeat: again(Buffer.from(`x: ${'y'.repeat(100)}\r\n`)),
    reads: true,
  },
  {
    name: 'requests that wait for 100 Continue',
    connections: 50,
    begin: none,
    repeat: again(Buffer.concat([continued, Buffer.from('{}')])),
    reads: true,
  },
  {
    name: 'upgrades',
    connections: 200,
    begin: none,
    repeat: again(head('GET', '/v1/sandboxes', 'Connection: Upgrade', 'Upgrade: websocket')),
    reads: true,
  },
  { name: 'slow heads', connections: 900, begin: Buffer.from('GET / HTTP/1.1\r\nX: '), repeat: null, reads: true },
];
