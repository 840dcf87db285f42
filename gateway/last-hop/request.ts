import 'reflect-metadata';
import { createHash, createPrivateKey, webcrypto, X509Certificate } from 'node:crypto';
import * as x509 from '@peculiar/x509';
import { formatUri } from '../../domain/hosts/last-hop.ts';
import type { JoinToken } from './join-token.ts';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;

x509.cryptoProvider.set(webcrypto);

/** A key pair that stays in this process, and the request for its certificate. */
export interface KeyAndRequest {
  /** PEM. */
  key: string;
  /** PKCS #10, DER, as base64. */
  request: string;
}

export async function makeKeyAndRequest(): Promise<KeyAndRequest> {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    name: 'CN=last hop',
    keys,
    signingAlgorithm: algorithm,
  });
  const pkcs8 = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey));
  const key = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' });
  return {
    key: key.export({ format: 'pem', type: 'pkcs8' }) as string,
    request: Buffer.from(request.rawData).toString('base64'),
  };
}

/** A checked certificate, and the authority that all connections of the last hop trust. */
export interface IssuedCertificate {
  certificate: string;
  authority: string;
  expiresAt: Date;
}

/**
 * Checks an issued certificate: it must be from the token's authority, for this key and this identity.
 * @throws {Error} with the problem of the certificate
 */
export function checkIssued(chain: string, key: string, token: JoinToken): IssuedCertificate {
  const [certificate, authority] = chain.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  if (!certificate || !authority) throw new Error('the reply holds no certificate and authority');
  const [leaf, root] = [new X509Certificate(certificate), new X509Certificate(authority)];
  const spki = root.publicKey.export({ format: 'der', type: 'spki' });
  if (!createHash('sha256').update(spki).digest().equals(token.authorityDigest)) {
    throw new Error('the certificate comes from another authority than the join token names');
  }
  if (!leaf.verify(root.publicKey)) throw new Error('the certificate is not signed by its authority');
  if (!leaf.checkPrivateKey(createPrivateKey(key))) throw new Error('the certificate is of another key');
  if (leaf.subjectAltName !== `URI:${formatUri(token)}`) throw new Error('the certificate is of another identity');
  return { certificate, authority, expiresAt: leaf.validToDate };
}
