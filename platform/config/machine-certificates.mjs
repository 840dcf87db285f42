import fs from 'node:fs';

/** The files with all certificates that a machine trusts, on Debian, Fedora and openSUSE. */
export const certificateStores = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/var/lib/ca-certificates/ca-bundle.pem',
];

/**
 * The file with all certificates that this machine trusts.
 * @returns {string | undefined}
 */
export function machineCertificates() {
  return certificateStores.find((file) => fs.existsSync(file));
}

/**
 * The environment for a program of Node, such as npm, which by itself does not use the machine's certificates. So a
 * proxy that inspects TLS works if the machine trusts it. Older versions of Node lack `--use-system-ca`.
 * @param {NodeJS.ProcessEnv} env
 * @returns {NodeJS.ProcessEnv}
 */
export function withMachineCertificates(env) {
  const store = machineCertificates();
  return env.NODE_EXTRA_CA_CERTS || !store ? env : { ...env, NODE_EXTRA_CA_CERTS: store };
}
