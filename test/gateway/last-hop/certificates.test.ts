import { X509Certificate } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { findIssued, requestCertificate, revokeLastHop } from '../../../db/hosts/last-hop-certificates.ts';
import { createOrm, type Orm } from '../../../db/orm.ts';
import { formatUri, identityIn, type LastHopIdentity, readPreface } from '../../../domain/hosts/last-hop.ts';
import { LastHopAuthority } from '../../../gateway/last-hop/authority.ts';
import { type Credential, OwnCredential } from '../../../gateway/last-hop/credential.ts';
import { computeProof, readJoinToken, writeJoinToken } from '../../../gateway/last-hop/join-token.ts';
import { checkIssued, makeKeyAndRequest } from '../../../gateway/last-hop/request.ts';
import { LastHopIssuer } from '../../../worker/hosts/last-hop-issuer.ts';
import { type TestDatabase, testDatabase } from '../../support/stack.ts';
import { until } from '../../support/until.ts';

/** Certificates of the last hop: requested with a join token, issued by the only process with the authority's key. */
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'last-hop-'));
const logger = pino({ level: 'silent' });
let database: TestDatabase;
let orm: Orm;
let authority: LastHopAuthority;
let issuer: LastHopIssuer;

beforeAll(async () => {
  database = await testDatabase();
  orm = await createOrm(database.url, 4);
  authority = await LastHopAuthority.open(path.join(folder, 'ca'));
  issuer = new LastHopIssuer({ orm, databaseUrl: database.url, authority, logger });
  issuer.start();
});
afterAll(async () => {
  await issuer?.stop();
  await orm?.close();
  await database?.drop();
  fs.rmSync(folder, { recursive: true, force: true });
});

const host: LastHopIdentity = { role: 'host', name: 'host-a' };

async function answerTo(request: string, identity: LastHopIdentity, proof: string) {
  const id = await requestCertificate(orm.em, { ...identity, request, proof });
  let answer: Awaited<ReturnType<typeof findIssued>> = null;
  await until(async () => {
    answer = await findIssued(orm.em, id);
    return answer !== null;
  });
  return answer!;
}

async function openCredential(token: string, role: LastHopIdentity['role']): Promise<OwnCredential> {
  const file = path.join(folder, `token-${Math.random()}`);
  fs.writeFileSync(file, `${token}\n`);
  return OwnCredential.of(file, role, { orm, logger });
}

test('a process with a join token gets a certificate of its identity, for a key that never leaves it', async () => {
  const own = await openCredential(authority.joinToken(host), 'host');
  expect(own.current).toBeNull();
  own.start();
  await until(() => own.current !== null);
  const { key, certificate, expiresAt } = own.current!;
  await own.stop();
  const leaf = new X509Certificate(certificate);
  expect(identityIn(leaf.subjectAltName)).toEqual(host);
  expect(leaf.ca).toBe(false);
  const hours = (expiresAt.getTime() - Date.now()) / 3_600_000;
  expect([hours > 23, hours <= 24]).toEqual([true, true]);
  const stored = JSON.stringify(await orm.em.fork().getConnection().execute('select * from last_hop_certificates'));
  expect(stored).toContain('BEGIN CERTIFICATE');
  expect(stored).not.toContain('PRIVATE KEY');
  expect(stored).not.toContain(key.split('\n')[1]!);
  expect(stored).not.toContain(readJoinToken(authority.joinToken(host)).key.toString('base64url'));
});

test('a new certificate replaces one after half of its lifetime', async () => {
  await issuer.stop();
  const brief = await LastHopAuthority.open(path.join(folder, 'ca'), { lifetimeMs: 3000 });
  const briefIssuer = new LastHopIssuer({ orm, databaseUrl: database.url, authority: brief, logger });
  briefIssuer.start();
  const own = await openCredential(authority.joinToken(host), 'host');
  const got: Credential[] = [];
  own.onNewer((each) => got.push(each));
  own.start();
  await until(() => got.length >= 2);
  await own.stop();
  await briefIssuer.stop();
  expect(new Set(got.map(({ key }) => key)).size).toBe(got.length);
  expect(got[1]!.expiresAt.getTime()).toBeGreaterThan(got[0]!.expiresAt.getTime());
  issuer = new LastHopIssuer({ orm, databaseUrl: database.url, authority, logger });
  issuer.start();
});

test('refused: the token of another name or role, another authority, another key, and invalid requests', async () => {
  const { request } = await makeKeyAndRequest();
  const own = readJoinToken(authority.joinToken(host));
  const refusal = { refusal: 'the request shows no valid join token' };
  expect(await answerTo(request, { ...host, name: 'host-b' }, computeProof(own.key, request))).toEqual(refusal);
  expect(await answerTo(request, { ...host, role: 'gateway' }, computeProof(own.key, request))).toEqual(refusal);
  expect(await answerTo(request, host, 'x')).toEqual(refusal);
  const other = readJoinToken((await LastHopAuthority.open(path.join(folder, 'other'))).joinToken(host));
  expect(await answerTo(request, host, computeProof(other.key, request))).toEqual(refusal);
  // Its key is replaced, so it is not signed with its own key.
  const forged = Buffer.from(request, 'base64');
  const second = Buffer.from((await makeKeyAndRequest()).request, 'base64');
  const point = Buffer.from('03420004', 'hex');
  second.copy(forged, forged.indexOf(point), second.indexOf(point), second.indexOf(point) + 68);
  for (const bad of [forged.toString('base64'), '', 'AAAA', 'é']) {
    expect(await answerTo(bad, host, computeProof(own.key, bad))).toEqual({
      refusal: 'the request is not one of an ECDSA P-256 key, signed with that key',
    });
  }
});

test('refused: an identity that is revoked', async () => {
  const gone: LastHopIdentity = { role: 'gateway', name: 'gone' };
  const { request } = await makeKeyAndRequest();
  const { key } = readJoinToken(authority.joinToken(gone));
  expect(await answerTo(request, gone, computeProof(key, request))).toHaveProperty('certificate');
  await revokeLastHop(orm.em, gone);
  await revokeLastHop(orm.em, gone);
  expect(await answerTo(request, gone, computeProof(key, request))).toEqual({ refusal: 'this identity is revoked' });
});

test('a process accepts no certificate of another authority, key or identity from the database', async () => {
  const token = readJoinToken(authority.joinToken(host));
  const { key, request } = await makeKeyAndRequest();
  const issued = async (from: LastHopAuthority, identity: LastHopIdentity, of: string) => {
    const proof = computeProof(readJoinToken(from.joinToken(identity)).key, of);
    return ((await from.issue({ ...identity, request: of, proof }, false)) as { certificate: string }).certificate;
  };
  expect(checkIssued(await issued(authority, host, request), key, token).authority).toContain('BEGIN');
  const stranger = await LastHopAuthority.open(path.join(folder, 'stranger'));
  const foreign = await issued(stranger, host, request);
  expect(() => checkIssued(foreign, key, token)).toThrow('another authority');
  const [leaf] = foreign.split('-----END CERTIFICATE-----');
  const mixed = `${leaf}-----END CERTIFICATE-----\n${authority.certificatePem}`;
  expect(() => checkIssued(mixed, key, token)).toThrow('not signed by its authority');
  const ofOther = await issued(authority, { ...host, name: 'host-b' }, request);
  expect(() => checkIssued(ofOther, key, token)).toThrow('another identity');
  const ofOtherKey = await issued(authority, host, (await makeKeyAndRequest()).request);
  expect(() => checkIssued(ofOtherKey, key, token)).toThrow('another key');
  expect(() => checkIssued('nothing', key, token)).toThrow('no certificate');
});

test('the authority is made once, private to its owner, and a damaged one is not replaced', async () => {
  const dir = path.join(folder, 'once');
  const all = await Promise.all([1, 2, 3].map(() => LastHopAuthority.open(dir)));
  expect(new Set(all.map((each) => each.joinToken(host))).size).toBe(1);
  expect(fs.statSync(path.join(dir, 'ca-key.pem')).mode & 0o777).toBe(0o600);
  fs.copyFileSync(path.join(folder, 'ca/ca-key.pem'), path.join(dir, 'ca-key.pem'));
  await expect(LastHopAuthority.open(dir)).rejects.toThrow('do not belong together');
  expect(fs.readdirSync(folder).filter((name) => name.startsWith('once-'))).toEqual([]);
});

test('incomplete tokens are refused, and errors do not repeat them', async () => {
  const token = authority.joinToken({ role: 'gateway', name: 'göteborg 1' });
  expect(writeJoinToken(readJoinToken(`${token}\n`))).toBe(token);
  for (const bad of ['', 'x', token.slice(0, -1), `${token}a`, token.replace('gateway', 'root')]) {
    expect(() => readJoinToken(bad)).toThrow(/^the file holds no join token of the last hop$/);
  }
  await expect(openCredential(token, 'host')).rejects.toThrow('of a gateway, not of a host');
});

test('identities and first lines have one format each', () => {
  for (const identity of [host, { role: 'gateway', name: "it's (a) b,URI:x/é" }] as const) {
    expect(identityIn(`URI:${formatUri(identity)}`)).toEqual(identity);
  }
  for (const bad of [
    undefined,
    '',
    `URI:${formatUri(host)}, URI:${formatUri(host)}`,
    'DNS:host-a',
    `URI:${formatUri(host)}/x`,
  ]) {
    expect(identityIn(bad)).toBeNull();
  }
  expect(readPreface('SANDBOX/1 sbx-a 80 reply')).toEqual({ sandboxId: 'sbx-a', port: 80, wantsReply: true });
  for (const bad of ['', 'SANDBOX/1 sbx-a 0 reply', 'SANDBOX/1 sbx-a 65536 reply', 'SANDBOX/1 10.0.0.1 80 reply']) {
    expect(readPreface(bad)).toBeNull();
  }
  for (const bad of [
    'SANDBOX/2 sbx-a 80 reply',
    'SANDBOX/1 sbx-a 80 reply ',
    'SANDBOX/1  sbx-a 80 plain',
    'GET / HTTP/1.1',
  ]) {
    expect(readPreface(bad)).toBeNull();
  }
});
