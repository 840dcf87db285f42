import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import tls from 'node:tls';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { openCertificates } from '../../gateway/tls/certificates.ts';
import { isNearExpiry, issueLeaf, openLocalCa } from '../../gateway/tls/local-ca.ts';
import { until } from '../support/until.ts';
import { RawConnection, send } from './client.ts';
import { formatHost, type StartedGateway, startGateway, testDomain } from './started-gateway.ts';
import { startHttpUpstream, type UpstreamServer } from './upstream-server.ts';

const logger = pino({ level: 'silent' });
let dir: string;
let started: StartedGateway;
let agent: UpstreamServer;

beforeAll(async () => {
  dir = mkdtempSync(path.join(os.tmpdir(), 'gateway-tls-'));
  started = await startGateway();
  agent = await startHttpUpstream((request, response) => response.end(`${request.headers['x-forwarded-proto']}`));
  started.routes.set({ sandboxId: 'sbx-one', address: agent.address, agentPort: agent.port });
});

afterAll(async () => {
  await started.stop();
  await agent.stop();
  rmSync(dir, { recursive: true });
});

async function connect(options: tls.ConnectionOptions): Promise<tls.TLSSocket> {
  const socket = tls.connect({ port: started.port, host: '127.0.0.1', ca: started.ca.certificatePem, ...options });
  await once(socket, 'secureConnect');
  return socket;
}

async function ask(socket: tls.TLSSocket, host: string): Promise<string> {
  const connection = new RawConnection(0, socket);
  connection.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  await connection.closed();
  return connection.received;
}

test.each([formatHost('sbx-one'), formatHost('sbx-one', 3000), testDomain])(
  '%s is verified by the local CA',
  async (servername) => {
    const socket = await connect({ servername, rejectUnauthorized: true });
    expect(socket.authorized).toBe(true);
    socket.destroy();
  },
);

test('a name outside the base domain is not', async () => {
  await expect(connect({ servername: 'example.com' })).rejects.toMatchObject({ code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
});

test('HTTP and TLS are served on one port, and the sandbox gets the scheme', async () => {
  expect((await send({ port: started.port, host: formatHost('sbx-one') })).text).toBe('http');
  const request = https.get({
    host: '127.0.0.1',
    port: started.port,
    servername: formatHost('sbx-one'),
    ca: started.ca.certificatePem,
    headers: { host: formatHost('sbx-one') },
    agent: false,
  });
  const [response] = await once(request, 'response');
  expect((await buffer(response)).toString()).toBe('https');
});

test('HTTP/2 is preferred, HTTP/1.1 is available, also without ALPN', async () => {
  for (const [ALPNProtocols, agreed] of [
    [['h2', 'http/1.1'], 'h2'],
    [['http/1.1'], 'http/1.1'],
  ] as const) {
    const socket = await connect({ servername: formatHost('sbx-one'), ALPNProtocols: [...ALPNProtocols] });
    expect(socket.alpnProtocol).toBe(agreed);
    socket.destroy();
  }
  expect(await ask(await connect({ servername: formatHost('sbx-one') }), formatHost('sbx-one'))).toMatch(
    /200 OK[\s\S]*https/,
  );
});

test('one connection serves other sandboxes of the base domain, and none for a foreign name', async () => {
  const within = await connect({ servername: formatHost('sbx-other') });
  expect(await ask(within, formatHost('sbx-one'))).toMatch(/^HTTP\/1\.1 200 /);
  const unnamed = await connect({ servername: '', checkServerIdentity: () => undefined });
  expect(await ask(unnamed, formatHost('sbx-one'))).toMatch(/^HTTP\/1\.1 200 /);
  for (const servername of ['example.com', `evil${testDomain}`]) {
    const foreign = await connect({ servername, checkServerIdentity: () => undefined });
    expect(await ask(foreign, formatHost('sbx-one'))).toMatch(/^HTTP\/1\.1 421 [\s\S]*misdirected_request/);
  }
});

test('TLS 1.1 is refused', async () => {
  const options = {
    servername: formatHost('sbx-one'),
    maxVersion: 'TLSv1.1',
    minVersion: 'TLSv1',
    ciphers: 'DEFAULT@SECLEVEL=0',
  } as const;
  await expect(connect(options)).rejects.toThrow();
});

test('the CA is made once, and only its owner can read its key', async () => {
  const dataDir = path.join(dir, 'once');
  const made = await Promise.all(Array.from({ length: 5 }, () => openLocalCa(dataDir)));
  const [first] = made;
  expect(new Set(made.map((ca) => ca.certificatePem)).size).toBe(1);
  expect((await openLocalCa(dataDir)).certificatePem).toBe(first!.certificatePem);
  expect(statSync(path.join(dataDir, 'ca/ca-key.pem')).mode & 0o777).toBe(0o600);
  expect(readFileSync(path.join(dataDir, 'ca/ca.pem'), 'utf8')).toBe(first!.certificatePem);
  const certificate = new X509Certificate(first!.certificatePem);
  expect(certificate.ca).toBe(true);
  expect(certificate.validToDate.getTime()).toBeGreaterThan(Date.now() + 9 * 365 * 86_400_000);
});

test('a certificate is for the base domain only, valid for as long as clients accept, and signed by the CA', async () => {
  const ca = await openLocalCa(path.join(dir, 'leaf'));
  const leaf = new X509Certificate((await issueLeaf(ca, 'boxes.example')).cert);
  expect(leaf.subjectAltName).toBe('DNS:boxes.example, DNS:*.boxes.example');
  expect(leaf.ca).toBe(false);
  expect(leaf.verify(new X509Certificate(ca.certificatePem).publicKey)).toBe(true);
  expect(leaf.validToDate.getTime() - leaf.validFromDate.getTime()).toBeLessThanOrEqual(398 * 86_400_000);
  expect(leaf.validFromDate.getTime()).toBeLessThan(Date.now());
  expect(isNearExpiry((await issueLeaf(ca, 'boxes.example')).cert.toString())).toBe(false);
});

test('a CA and a certificate are replaced before they expire', async () => {
  const dataDir = path.join(dir, 'old');
  const old = await openLocalCa(dataDir);
  const today = Date.now;
  try {
    Date.now = () => today() + 380 * 86_400_000;
    const options = {
      dataDir,
      baseDomain: 'boxes.example',
      certFile: undefined,
      keyFile: undefined,
      logger,
      checkIntervalMs: 20,
    };
    Date.now = today;
    const source = await openCertificates(options);
    const before = source.current;
    const renewed = new Promise<void>((resolve) => source.watch(() => resolve()));
    Date.now = () => today() + 380 * 86_400_000;
    await renewed;
    source.close();
    expect(source.current.cert).not.toBe(before.cert);
    expect((await openLocalCa(dataDir)).certificatePem).toBe(old.certificatePem);
    Date.now = () => today() + 3640 * 86_400_000;
    expect((await openLocalCa(dataDir)).certificatePem).not.toBe(old.certificatePem);
  } finally {
    Date.now = today;
  }
});

test('the certificate of an operator is served, and read again when its files change', async () => {
  const [certFile, keyFile] = [path.join(dir, 'cert.pem'), path.join(dir, 'key.pem')];
  const write = async (ca: Awaited<ReturnType<typeof openLocalCa>>, at: Date) => {
    const { cert, key } = await issueLeaf(ca, testDomain);
    writeFileSync(keyFile, key);
    writeFileSync(certFile, cert);
    utimesSync(certFile, at, at);
  };
  const [firstCa, secondCa] = [await openLocalCa(path.join(dir, 'first')), await openLocalCa(path.join(dir, 'second'))];
  await write(firstCa, new Date(1000));
  const certificates = await openCertificates({
    dataDir: path.join(dir, 'unused'),
    baseDomain: testDomain,
    certFile,
    keyFile,
    logger,
    checkIntervalMs: 20,
  });
  const own = await startGateway({ certificates });
  try {
    const options = { port: own.port, host: '127.0.0.1', servername: formatHost('sbx-one') };
    const first = tls.connect({ ...options, ca: firstCa.certificatePem });
    await once(first, 'secureConnect');
    first.destroy();
    await write(secondCa, new Date(2000));
    await until(async () => {
      const second = tls.connect({ ...options, ca: secondCa.certificatePem });
      const isServed = await once(second, 'secureConnect').then(
        () => true,
        () => false,
      );
      second.destroy();
      return isServed;
    });
  } finally {
    await own.stop();
  }
});

test('a certificate without its key in the settings is an error', async () => {
  const options = { dataDir: dir, baseDomain: testDomain, certFile: 'x', keyFile: undefined, logger };
  await expect(openCertificates(options)).rejects.toThrow('belong together');
});
