import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { expect, test } from '@jest/globals';
import { exchange } from '../../clients/typescript/src/http-exchange.ts';
import { until } from '../support/until.ts';

/** A server that refuses uploads as soon as their head has come, in a process of its own. */
const refuse = `
const server = require('node:http').createServer((request, response) => {
  response.writeHead(400, { 'content-type': 'application/json' }).end('{"code": "refused", "message": "no"}');
  request.resume();
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
`;

test('a refusal that comes before the body was sent reaches the caller, and the rest of the body is not sent', async () => {
  const server = spawn(process.execPath, ['-e', refuse], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const [port] = await once(createInterface(server.stdout), 'line');
    let left = 0;
    async function* endless() {
      try {
        yield Buffer.alloc(1000);
        // The reply, and the end of the connection with `Connection: close`, come while this process does something else.
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
        for (;;) yield Buffer.alloc(65_536);
      } finally {
        left += 1;
      }
    }
    for (let upload = 1; upload <= 20; upload++) {
      const sent = exchange({ origin: `http://127.0.0.1:${port}`, host: null }, '/upload', {
        ...{ method: 'POST', headers: {}, body: endless(), isAlone: true },
      });
      await expect(sent).rejects.toMatchObject({ code: 'refused', status: 400 });
    }
    await until(() => left === 20);
  } finally {
    server.kill();
    await once(server, 'exit');
  }
});
