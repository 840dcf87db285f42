import type net from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { afterEach, describe, expect, test } from '@jest/globals';
import { parseImageReference } from '../../../domain/templates/image-reference.ts';
import { findExternalImage } from '../../../integrations/registry/external-image.ts';
import { ImportSource } from '../../../integrations/registry/import-source.ts';
import { RegistryClient, RegistryError } from '../../../integrations/registry/registry-client.ts';
import { discard, RegistryHttp } from '../../../integrations/registry/registry-http.ts';
import { createChunk, pour, RawServer } from '../../support/raw-server.ts';
import { until } from '../../support/until.ts';

const http = new RegistryHttp({});
const servers: RawServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.stop()));
  http.close();
});

async function serve(onRequest: (socket: net.Socket) => void): Promise<RawServer> {
  const server = await RawServer.start(onRequest);
  servers.push(server);
  return server;
}

const reference = parseImageReference('registry.example/a/b:latest')!;
const credentials = { username: 'ada', password: 'a-long-secret' };

function find(origin: string, signal = new AbortController().signal) {
  return findExternalImage(new RegistryClient(http, { origin, path: 'a/b' }, credentials), reference, signal);
}

describe('an unwanted body without end is not read', () => {
  test.each([
    ['of a missing image', '404 Not Found', ''],
    ['of a failure', '500 Internal Server Error', ''],
    ['of a challenge', '401 Unauthorized', 'www-authenticate: Basic realm="x"\r\n'],
    ['of a redirect', '302 Found', 'location: /v2/elsewhere\r\n'],
  ])('%s', async (_what, status, headers) => {
    const beginning = `HTTP/1.1 ${status}\r\n${headers}transfer-encoding: chunked\r\n\r\n`;
    const server = await serve((socket) => pour(socket, beginning, createChunk(65_536)));
    await expect(find(`http://${server.address}`)).rejects.toThrow();
    await until(() => server.open === 0);
  });
});

test('the connection of a short unwanted body is used again', async () => {
  const server = await serve((socket) => void socket.write('HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\ngone'));
  for (let count = 0; count < 3; count++) {
    const reply = await http.send(new URL(`http://${server.address}/`), { method: 'GET', headers: {} });
    discard(reply.body);
    await new Promise((resolve) => reply.body.once('close', resolve));
    // Node hands the connection back in the same turn of the event loop.
    await setImmediate();
  }
  expect(server.accepted).toBe(1);
});

test('interim replies without end close the connection', async () => {
  const server = await serve((socket) => pour(socket, '', 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(100)));
  const reason: RegistryError = await find(`http://${server.address}`).then(
    () => undefined,
    (error) => error,
  );
  expect(reason).toBeInstanceOf(RegistryError);
  expect(reason.cause).toMatchObject({ message: `${server.address} sends too many interim replies` });
  await until(() => server.open === 0);
});

test('a reply that switches protocols is a failure', async () => {
  const server = await serve((socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n');
  });
  await expect(find(`http://${server.address}`)).rejects.toThrow('cannot be reached');
});

test('a blob that trickles ends its copy', async () => {
  const server = await serve((socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n');
    const timer = setInterval(() => socket.write('a'), 10);
    socket.on('close', () => clearInterval(timer));
  });
  const digest = `sha256:${'a'.repeat(64)}`;
  const blob = { digest, size: 1_000_000, mediaType: '' };
  const found = {
    ...{ digest, mediaType: '', bytes: Buffer.alloc(0) },
    manifest: { kind: 'image' as const, mediaType: '', config: blob, layers: [] },
  };
  const client = new RegistryClient(http, { origin: `http://${server.address}`, path: 'a/b' }, null);
  const pace = { bytes: 100_000, ms: 200 };
  const source = await ImportSource.open(client, found, 'Basic own', new AbortController().signal, pace);
  try {
    const headers = { authorization: 'Basic own' };
    const reply = await fetch(`http://${source.address}/v2/image/blobs/${digest}`, { headers });
    await expect(reply.arrayBuffer()).rejects.toThrow();
    await until(() => source.failure !== null);
    expect(source.failure).toMatchObject({ message: 'The external registry sends too slowly' });
    await until(() => server.open === 0);
  } finally {
    await source.close();
  }
});

test('the password is not sent to a token server without TLS if the registry has TLS', async () => {
  let requests = 0;
  const tokens = await serve((socket) => {
    requests += 1;
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{"token":"a"}');
  });
  const challenging = {
    send: (url: URL, request: Parameters<RegistryHttp['send']>[1]) =>
      http.send(url.host === 'registry.example' ? new URL(`http://${registry.address}/`) : url, request),
  } as RegistryHttp;
  const challenge = `www-authenticate: Bearer realm="http://${tokens.address}/token"\r\n`;
  const registry = await serve(
    (socket) => void socket.write(`HTTP/1.1 401 Unauthorized\r\n${challenge}content-length: 0\r\n\r\n`),
  );
  const ask = (origin: string) =>
    new RegistryClient(challenging, { origin, path: 'a/b' }, credentials).hasBlob(`sha256:${'a'.repeat(64)}`);
  await expect(ask('https://registry.example')).rejects.toThrow('The registry has a token server without TLS');
  expect(requests).toBe(0);
  await expect(ask('http://registry.example')).rejects.toThrow(RegistryError);
  expect(requests).toBe(1);
});
