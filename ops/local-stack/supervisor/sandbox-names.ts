import { resolveHost } from '../../../platform/config/resolve-host.ts';

/**
 * Advice if the domains of sandboxes do not resolve on this machine. Browsers and curl resolve `*.localhost`
 * themselves. Other programs only resolve it if the C library does.
 * @param baseDomain sandboxes are `*.<baseDomain>`
 * @returns null when they resolve
 */
export async function namesAdvice(baseDomain: string): Promise<string | null> {
  const [found] = await Promise.allSettled([resolveHost(`name-check.${baseDomain}`)]);
  if (found.status === 'fulfilled') return null;
  const remedy = baseDomain.endsWith('localhost')
    ? 'let the C library resolve them (myhostname in the line hosts of /etc/nsswitch.conf; on Debian, install libnss-myhostname)'
    : `add a wildcard record for *.${baseDomain} to the DNS`;
  return `*.${baseDomain} does not resolve in programs here: ${remedy}, or send requests to the gateway's address with the header Host`;
}
