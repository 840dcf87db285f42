import type { Logger } from 'pino';
import { resolveHost } from '../../platform/config/resolve-host.ts';

/**
 * The IPv4 addresses of a server that sandboxes use, resolved when the host starts, for the firewall.
 * @returns an empty list when its name does not resolve; then sandboxes reach the server only if it is public
 */
export async function serverAddresses(
  what: string,
  { host, port }: { host: string; port: number },
  logger: Logger,
): Promise<{ address: string; port: number }[]> {
  try {
    return (await resolveHost(host, { family: 4 })).map(({ address }) => ({ address, port }));
  } catch (error) {
    logger.warn({ err: error, host }, `the ${what} has no address; sandboxes may not reach it in a private network`);
    return [];
  }
}
