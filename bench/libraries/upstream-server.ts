import net, { type AddressInfo } from 'node:net';
import { parentPort } from 'node:worker_threads';

const bytes = Buffer.alloc(256 * 1024, 'x');
const chunk = Buffer.concat([Buffer.from('1000\r\n'), Buffer.alloc(4096, 'x'), Buffer.from('\r\n')]);
const heads: Record<string, (bodyBytes: number) => string> = {
  '/small': () => 'Content-Length: 5\r\n\r\nhello',
  '/length': (bodyBytes) => `Content-Length: ${bodyBytes}\r\n\r\n`,
  '/chunks': () => 'Transfer-Encoding: chunked\r\n\r\n',
};
/** The bytes of a body that are written at once. All pieces have the same number of bytes. */
const pieces: Record<string, Buffer> = { '/length': bytes, '/chunks': Buffer.concat(Array(64).fill(chunk)) };

/** Serves `/small`, and large bodies with minimal work: `/length?<MiB>` and `/chunks?<MiB>`. Posts its port. */
const server = net.createServer((socket) => {
  socket.on('data', (request) => {
    const [path, mebibytes] = request.toString('latin1').split(' ', 2)[1]!.split('?');
    const bodyBytes = Number(mebibytes ?? 0) * 2 ** 20;
    socket.write(`HTTP/1.1 200 OK\r\n${heads[path!]!(bodyBytes)}`);
    let left = bodyBytes;
    const write = () => {
      while (left > 0) {
        left -= bytes.length;
        if (!socket.write(pieces[path!]!)) {
          socket.once('drain', write);
          return;
        }
      }
      if (path === '/chunks') socket.write('0\r\n\r\n');
    };
    write();
  });
});
server.listen(0, '127.0.0.1', () => parentPort!.postMessage((server.address() as AddressInfo).port));
