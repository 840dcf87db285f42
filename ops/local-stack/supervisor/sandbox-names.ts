import { lookup } from 'node:dns/promises';

/**
 * What to do when the domains of sandboxes do not resolve on this machine. Browsers and curl resolve `*.localhost` by
 * themselves; other programs only if the C library does.
 * @param baseDomain sandboxes are `*.<baseDomain>`
 * @returns null: they resolve
 */
export async function namesAdvice(baseDomain: string): Promise<string | null> {
  const [found] = await Promise.allSettled([lookup(`name-check.${baseDomain}`)]);
  if (found.status === 'fulfilled') return null;
  const remedy = baseDomain.endsWith('localhost')
    ? 'install libnss-myhostname'
    : `add a wildcard record for *.${baseDomain} to the DNS`;
  return `*.${baseDomain} does not resolve in programs here: ${remedy}, or send requests to the gateway's address with the header Host`;
}
