import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type ConnectionUser, Http1Connection } from '../../gateway/upstream/http1-connection.ts';
import { directOpening } from '../../gateway/upstream/opening.ts';
import { poisonReleasedBytes } from './poisoned-bytes.ts';
import { startScriptedUpstream, type UpstreamServer } from './upstream-server.ts';

const request = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
let sandbox: UpstreamServer;

beforeAll(async () => {
  poisonReleasedBytes();
  sandbox = await startScriptedUpstream('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello');
});

afterAll(() => sandbox.stop());

function openConnection(): Promise<Http1Connection> {
  const { address, port } = sandbox;
  return Http1Connection.connect(address, directOpening({ sandboxId: 'sbx-one', address, tunnel: null }, port));
}

/** Sends a request. `onBody` gets views of the read buffer. */
async function responseOn(connection: Http1Connection, onBody: (bytes: Buffer) => void): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const user: ConnectionUser = {
      onInformational: () => undefined,
      onHead: () => undefined,
      onBody: (bytes, last) => {
        onBody(bytes);
        if (last) resolve();
      },
      onTunnelBytes: () => undefined,
      onReadDone: () => undefined,
      onWritable: () => undefined,
      onBroken: reject,
    };
    connection.send(request, 'GET', user);
  });
  await nextTurn();
}

test('bytes of a response that a caller keeps for too long are overwritten', async () => {
  const connection = await openConnection();
  let kept: Buffer = Buffer.alloc(0);
  await responseOn(connection, (bytes) => {
    kept = bytes;
  });
  expect(kept).toEqual(Buffer.alloc(5, 0xdb));
  connection.destroy();
});

test('bytes of a paused connection stay until it is resumed', async () => {
  const connection = await openConnection();
  let kept: Buffer = Buffer.alloc(0);
  await responseOn(connection, (bytes) => {
    kept = bytes;
    connection.pause();
  });
  expect(kept.toString()).toBe('hello');
  connection.resume();
  expect(kept).toEqual(Buffer.alloc(5, 0xdb));
  connection.destroy();
});
