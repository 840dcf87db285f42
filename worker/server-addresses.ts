import { lookup } from 'node:dns/promises';
import type { Logger } from 'pino';

/**
 * The IPv4 addresses of a server that sandboxes use, as they are when the host starts, for the firewall.
 * @returns none when its name leads nowhere: sandboxes then reach it only where anybody does
 */
export async function serverAddresses(
  what: string,
  { host, port }: { host: string; port: number },
  logger: Logger,
): Promise<{ address: string; port: number }[]> {
  try {
    return (await lookup(host, { family: 4, all: true })).map(({ address }) => ({ address, port }));
  } catch (error) {
    logger.warn({ err: error, host }, `the ${what} has no address; sandboxes may not reach it in a private network`);
    return [];
  }
}
