import 'reflect-metadata';
import { createPrivateKey, randomBytes, webcrypto } from 'node:crypto';
import * as x509 from '@peculiar/x509';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const dayMs = 24 * 60 * 60 * 1000;

x509.cryptoProvider.set(webcrypto);

/** A certificate and its key, as PEM. */
export interface KeyPair {
  certificate: string;
  key: string;
}

/** The subject of a certificate. Kubernetes reads a user and its group from it. */
export interface Subject {
  /** The user's name. */
  name: string;
  /** The user's group. */
  group?: string;
  /** Names and addresses of a server with this certificate. */
  answersFor?: readonly (x509.JsonGeneralName & { type: 'dns' | 'ip' })[];
}

/** A certificate authority of one test. Valid for a day. */
export class TestCa {
  readonly pair: KeyPair;
  readonly #certificate: x509.X509Certificate;
  readonly #keys: webcrypto.CryptoKeyPair;

  private constructor(certificate: x509.X509Certificate, keys: webcrypto.CryptoKeyPair, key: string) {
    this.pair = { certificate: certificate.toString('pem'), key };
    this.#certificate = certificate;
    this.#keys = keys;
  }

  static async create(): Promise<TestCa> {
    const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
    const certificate = await x509.X509CertificateGenerator.createSelfSigned({
      serialNumber: randomBytes(8).toString('hex'),
      name: [{ CN: ['authority of a test'] }],
      ...validity(),
      signingAlgorithm: algorithm,
      keys,
      extensions: [
        new x509.BasicConstraintsExtension(true, 0, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      ],
    });
    return new TestCa(certificate, keys, await exportPem(keys.privateKey));
  }

  /** For a client, a server, or both. */
  async issue({ name, group, answersFor = [] }: Subject): Promise<KeyPair> {
    const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
    const certificate = await x509.X509CertificateGenerator.create({
      serialNumber: randomBytes(8).toString('hex'),
      subject: [...(group ? [{ O: [group] }] : []), { CN: [name] }],
      issuer: this.#certificate.subjectName,
      ...validity(),
      signingAlgorithm: algorithm,
      publicKey: keys.publicKey,
      signingKey: this.#keys.privateKey,
      extensions: [
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth, x509.ExtendedKeyUsage.clientAuth]),
        ...(answersFor.length > 0 ? [new x509.SubjectAlternativeNameExtension([...answersFor])] : []),
      ],
    });
    return { certificate: certificate.toString('pem'), key: await exportPem(keys.privateKey) };
  }
}

/** It starts some minutes in the past, because clocks differ. */
function validity(): { notBefore: Date; notAfter: Date } {
  return { notBefore: new Date(Date.now() - dayMs / 24), notAfter: new Date(Date.now() + dayMs) };
}

async function exportPem(key: webcrypto.CryptoKey): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key));
  return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' }).export({
    format: 'pem',
    type: 'pkcs8',
  }) as string;
}
