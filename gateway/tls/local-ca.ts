import 'reflect-metadata';
import { createPrivateKey, randomBytes, webcrypto, X509Certificate } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import * as x509 from '@peculiar/x509';
import { renameDurably, writeFileDurably } from '../../platform/config/durable-file.ts';
import type { Certificate } from '../listener.ts';

const dayMs = 24 * 60 * 60 * 1000;
const caLifetimeMs = 3650 * dayMs;
/** The longest validity that clients accept. */
const leafLifetimeMs = 397 * dayMs;
const renewBeforeMs = 30 * dayMs;
/** The clocks of clients may be behind. */
const backdateMs = 60 * 60 * 1000;
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;

x509.cryptoProvider.set(webcrypto);

/** A certificate authority only for this installation, used when no certificate is configured. */
export interface LocalCa {
  certificatePem: string;
  privateKeyPem: string;
}

/**
 * The CA in `<data>/ca`: `ca.pem`, for clients to trust, and `ca-key.pem`, mode 600. Makes one if there is none or it
 * expires soon. Processes that start at the same time agree on one.
 */
export async function openLocalCa(dataDir: string): Promise<LocalCa> {
  const dir = path.join(dataDir, 'ca');
  const known = await readCa(dir);
  const fault = known && findFault(known);
  if (known && !fault) return known;
  if (known) await rename(dir, `${dir}.${fault}-${Date.now()}`).catch(ignoreMissing);
  await mkdir(dataDir, { recursive: true });
  const made = await makeCa();
  const draft = await mkdtemp(path.join(dataDir, '.ca-'));
  try {
    await writeFileDurably(path.join(draft, 'ca.pem'), made.certificatePem, 0o644);
    await writeFileDurably(path.join(draft, 'ca-key.pem'), made.privateKeyPem);
    await renameDurably(draft, dir);
    return made;
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    // Another process was faster, because a rename never replaces a folder that contains files.
    const others = await readCa(dir);
    if (others) return others;
    throw error;
  }
}

/** A certificate for `<base domain>` and `*.<base domain>`. Its key is never written to disk. */
export async function issueLeaf(ca: LocalCa, baseDomain: string): Promise<Certificate> {
  const caCertificate = new x509.X509Certificate(ca.certificatePem);
  const caKey = await importKey(ca.privateKeyPem);
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const notBefore = new Date(Date.now() - backdateMs);
  const notAfter = new Date(Math.min(notBefore.getTime() + leafLifetimeMs, caCertificate.notAfter.getTime()));
  const leaf = await x509.X509CertificateGenerator.create({
    serialNumber: serialNumber(),
    subject: [{ CN: [baseDomain] }],
    issuer: caCertificate.subjectName,
    notBefore,
    notAfter,
    signingAlgorithm: algorithm,
    publicKey: keys.publicKey,
    signingKey: caKey,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension([
        { type: 'dns', value: baseDomain },
        { type: 'dns', value: `*.${baseDomain}` },
      ]),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(caCertificate),
    ],
  });
  return { cert: `${leaf.toString('pem')}\n${ca.certificatePem}`, key: await exportKey(keys.privateKey) };
}

/** Whether the first certificate of a PEM text has expired or expires within a month. */
export function isNearExpiry(pem: string): boolean {
  return new X509Certificate(pem).validToDate.getTime() - Date.now() < renewBeforeMs;
}

/** Why a CA is unusable. Null when it is usable. */
function findFault(ca: LocalCa): 'damaged' | 'expired' | null {
  try {
    if (!new X509Certificate(ca.certificatePem).checkPrivateKey(createPrivateKey(ca.privateKeyPem))) return 'damaged';
  } catch {
    return 'damaged';
  }
  return isNearExpiry(ca.certificatePem) ? 'expired' : null;
}

async function makeCa(): Promise<LocalCa> {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const notBefore = new Date(Date.now() - backdateMs);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serialNumber(),
    name: [{ CN: [`Sandbox platform local CA ${randomBytes(4).toString('hex')}`] }],
    notBefore,
    notAfter: new Date(notBefore.getTime() + caLifetimeMs),
    signingAlgorithm: algorithm,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificatePem: `${certificate.toString('pem')}\n`, privateKeyPem: await exportKey(keys.privateKey) };
}

async function readCa(dir: string): Promise<LocalCa | null> {
  try {
    const [certificatePem, privateKeyPem] = await Promise.all([
      readFile(path.join(dir, 'ca.pem'), 'utf8'),
      readFile(path.join(dir, 'ca-key.pem'), 'utf8'),
    ]);
    return { certificatePem, privateKeyPem };
  } catch (error) {
    ignoreMissing(error as NodeJS.ErrnoException);
    return null;
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}

async function exportKey(key: webcrypto.CryptoKey): Promise<string> {
  const pkcs8 = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key));
  return createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' }).export({
    format: 'pem',
    type: 'pkcs8',
  }) as string;
}

function importKey(pem: string): Promise<webcrypto.CryptoKey> {
  const pkcs8 = createPrivateKey(pem).export({ format: 'der', type: 'pkcs8' });
  return webcrypto.subtle.importKey('pkcs8', pkcs8, algorithm, false, ['sign']);
}

/** 127 random bits, so that the number is never negative. */
function serialNumber(): string {
  const bytes = randomBytes(16);
  bytes[0] = (bytes[0]! & 0x7f) | 0x40;
  return bytes.toString('hex');
}
