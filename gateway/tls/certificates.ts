import { readFile, stat } from 'node:fs/promises';
import type { Logger } from 'pino';
import type { Certificate } from '../listener.ts';

const checkEveryMs = 60 * 60 * 1000;

export interface CertificateOptions {
  dataDir: string;
  baseDomain: string;
  /** PEM files of the operator's certificate. Both or neither. */
  certFile: string | undefined;
  keyFile: string | undefined;
  logger: Logger;
  checkIntervalMs?: number;
}

/** A source of the gateway's certificate. It also reports newer certificates. */
export interface CertificateSource {
  current: Certificate;
  /** Starts to check for a newer certificate: changed files, or a leaf that expires soon. */
  watch(onNewer: (certificate: Certificate) => void): void;
  close(): void;
}

/**
 * The operator's certificate, read again when its files change. Without one, a certificate of the local CA, renewed in
 * time.
 * @throws {Error} when a file is unreadable, or only one of the two is configured
 */
export async function openCertificates(options: CertificateOptions): Promise<CertificateSource> {
  const { certFile, keyFile, dataDir, baseDomain, logger } = options;
  if ((certFile === undefined) !== (keyFile === undefined)) {
    throw new Error('PLATFORM_TLS_CERT_FILE and PLATFORM_TLS_KEY_FILE belong together');
  }
  const { load, isOld } = certFile && keyFile ? fromFiles(certFile, keyFile) : await fromLocalCa(dataDir, baseDomain);
  let timer: NodeJS.Timeout | null = null;
  const source: CertificateSource = {
    current: await load(),
    watch: (onNewer) => {
      timer = setInterval(async () => {
        try {
          if (!(await isOld(source.current))) return;
          source.current = await load();
          onNewer(source.current);
          logger.info('the certificate was renewed');
        } catch (error) {
          logger.error({ err: error }, 'the certificate could not be renewed');
        }
      }, options.checkIntervalMs ?? checkEveryMs).unref();
    },
    close: () => timer && clearInterval(timer),
  };
  return source;
}

interface CertificateOrigin {
  load: () => Promise<Certificate>;
  isOld: (current: Certificate) => Promise<boolean>;
}

function fromFiles(certFile: string, keyFile: string): CertificateOrigin {
  const version = async () => (await Promise.all([stat(certFile), stat(keyFile)])).map((file) => file.mtimeMs).join();
  let loadedVersion = '';
  return {
    load: async () => {
      loadedVersion = await version();
      const [cert, key] = await Promise.all([readFile(certFile), readFile(keyFile)]);
      return { cert, key };
    },
    isOld: async () => (await version()) !== loadedVersion,
  };
}

async function fromLocalCa(dataDir: string, baseDomain: string): Promise<CertificateOrigin> {
  // Imported on demand, because the X.509 library loads slowly.
  const { openLocalCa, issueLeaf, isNearExpiry } = await import('./local-ca.ts');
  return {
    load: async () => issueLeaf(await openLocalCa(dataDir), baseDomain),
    isOld: async (current) => isNearExpiry(current.cert.toString()),
  };
}
