import 'reflect-metadata';
import {
  createHash,
  createHmac,
  createPrivateKey,
  hkdfSync,
  randomBytes,
  webcrypto,
  X509Certificate,
} from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import * as x509 from '@peculiar/x509';
import type { CertificateRequest, Issued } from '../../db/hosts/last-hop-certificates.ts';
import { formatUri, type LastHopIdentity } from '../../domain/hosts/last-hop.ts';
import { renameDurably, writeFileDurably } from '../../platform/config/durable-file.ts';
import { isProof, writeJoinToken } from './join-token.ts';

const hourMs = 3600 * 1000;
const authorityLifetimeMs = 20 * 365 * 24 * hourMs;
const defaultLifetimeMs = 24 * hourMs;
/** The clocks of hosts may be behind. */
const backdateMs = hourMs / 12;
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;

x509.cryptoProvider.set(webcrypto);

/**
 * The authority of the last hop. It signs short-lived certificates of hosts, gateways and APIs. Only control workers
 * have its folder. The key of the join tokens is derived from its private key, so no other secret of the platform gives
 * access to it.
 */
export class LastHopAuthority {
  readonly certificatePem: string;
  readonly #certificate: x509.X509Certificate;
  readonly #signingKey: webcrypto.CryptoKey;
  readonly #tokenKey: Buffer;
  readonly #lifetimeMs: number;

  private constructor(certificatePem: string, signingKey: webcrypto.CryptoKey, tokenKey: Buffer, lifetimeMs: number) {
    this.certificatePem = certificatePem;
    this.#certificate = new x509.X509Certificate(certificatePem);
    this.#signingKey = signingKey;
    this.#tokenKey = tokenKey;
    this.#lifetimeMs = lifetimeMs;
  }

  /**
   * Reads `ca.pem` and `ca-key.pem` (mode 600) of the folder, and makes them if there are none. Processes that start at
   * the same time agree on one pair.
   * @throws {Error} when a file is unreadable, or the two do not belong together
   */
  static async open(folder: string, { lifetimeMs = defaultLifetimeMs } = {}): Promise<LastHopAuthority> {
    const files = (await readAuthority(folder)) ?? (await makeAuthority(folder));
    const key = createPrivateKey(files.key);
    if (!new X509Certificate(files.certificate).checkPrivateKey(key)) {
      throw new Error(`ca.pem and ca-key.pem in ${folder} do not belong together`);
    }
    const pkcs8 = key.export({ format: 'der', type: 'pkcs8' });
    const signingKey = await webcrypto.subtle.importKey('pkcs8', pkcs8, algorithm, false, ['sign']);
    const secret = Buffer.from(key.export({ format: 'jwk' }).d!, 'base64url');
    const tokenKey = Buffer.from(hkdfSync('sha256', secret, 'sandbox-platform', 'last-hop-join-token', 32));
    return new LastHopAuthority(files.certificate, signingKey, tokenKey, lifetimeMs);
  }

  /** The secret token with which a machine requests certificates of this identity. */
  joinToken(identity: LastHopIdentity): string {
    const spki = new X509Certificate(this.certificatePem).publicKey.export({ format: 'der', type: 'spki' });
    const authorityDigest = createHash('sha256').update(spki).digest();
    return writeJoinToken({ ...identity, key: this.#deriveKey(identity), authorityDigest });
  }

  /** Answers a request. Only the public key of the request is used; its other fields are ignored. */
  async issue({ request, proof, ...identity }: CertificateRequest, isRevoked: boolean): Promise<Issued> {
    if (!isProof(this.#deriveKey(identity), request, proof))
      return { refusal: 'the request shows no valid join token' };
    if (isRevoked) return { refusal: 'this identity is revoked' };
    const publicKey = await publicKeyIn(request);
    if (!publicKey) return { refusal: 'the request is not one of an ECDSA P-256 key, signed with that key' };
    return this.#sign(identity, publicKey);
  }

  #deriveKey({ role, name }: LastHopIdentity): Buffer {
    return createHmac('sha256', this.#tokenKey).update(`${role} ${name}`).digest();
  }

  async #sign(identity: LastHopIdentity, publicKey: x509.PublicKey): Promise<Issued> {
    const { clientAuth, serverAuth } = x509.ExtendedKeyUsage;
    const notBefore = new Date(Date.now() - backdateMs);
    const expiresAt = new Date(Math.min(Date.now() + this.#lifetimeMs, this.#certificate.notAfter.getTime()));
    const certificate = await x509.X509CertificateGenerator.create({
      serialNumber: serialNumber(),
      subject: [{ CN: [`last hop ${identity.role}`] }],
      issuer: this.#certificate.subjectName,
      notBefore,
      notAfter: expiresAt,
      signingAlgorithm: algorithm,
      publicKey,
      signingKey: this.#signingKey,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        // The certificate of a host cannot open a connection, and the certificate of a gateway cannot accept one.
        new x509.ExtendedKeyUsageExtension([identity.role === 'host' ? serverAuth : clientAuth], true),
        new x509.SubjectAlternativeNameExtension([{ type: 'url', value: formatUri(identity) }]),
        await x509.AuthorityKeyIdentifierExtension.create(this.#certificate),
      ],
    });
    return { certificate: `${certificate.toString('pem')}\n${this.certificatePem}`, expiresAt };
  }
}

async function publicKeyIn(request: string): Promise<x509.PublicKey | null> {
  try {
    const parsed = new x509.Pkcs10CertificateRequest(Buffer.from(request, 'base64'));
    const { name, namedCurve } = parsed.publicKey.algorithm as EcKeyAlgorithm;
    if (name !== 'ECDSA' || namedCurve !== 'P-256' || !(await parsed.verify())) return null;
    return parsed.publicKey;
  } catch {
    // A caller may send any bytes. All requests that do not parse get the same answer.
    return null;
  }
}

interface EcKeyAlgorithm {
  name: string;
  namedCurve?: string;
}

interface AuthorityFiles {
  certificate: string;
  key: string;
}

async function readAuthority(folder: string): Promise<AuthorityFiles | null> {
  try {
    const [certificate, key] = await Promise.all([
      readFile(path.join(folder, 'ca.pem'), 'utf8'),
      readFile(path.join(folder, 'ca-key.pem'), 'utf8'),
    ]);
    return { certificate, key };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return null;
  }
}

async function makeAuthority(folder: string): Promise<AuthorityFiles> {
  const made = await newAuthority();
  await mkdir(path.dirname(folder), { recursive: true });
  const draft = await mkdtemp(`${folder}-`);
  try {
    await writeFileDurably(path.join(draft, 'ca.pem'), made.certificate, 0o644);
    await writeFileDurably(path.join(draft, 'ca-key.pem'), made.key);
    await renameDurably(draft, folder);
    return made;
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    // Another process was faster, because a rename never replaces a folder that contains files.
    const others = await readAuthority(folder);
    if (others) return others;
    throw error;
  }
}

async function newAuthority(): Promise<AuthorityFiles> {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const notBefore = new Date(Date.now() - backdateMs);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serialNumber(),
    name: [{ CN: [`Sandbox platform last hop ${randomBytes(4).toString('hex')}`] }],
    notBefore,
    notAfter: new Date(notBefore.getTime() + authorityLifetimeMs),
    signingAlgorithm: algorithm,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  const pkcs8 = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey));
  const key = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' });
  return {
    certificate: `${certificate.toString('pem')}\n`,
    key: key.export({ format: 'pem', type: 'pkcs8' }) as string,
  };
}

/** 127 random bits, so that the number is never negative. */
function serialNumber(): string {
  const bytes = randomBytes(16);
  bytes[0] = (bytes[0]! & 0x7f) | 0x40;
  return bytes.toString('hex');
}
