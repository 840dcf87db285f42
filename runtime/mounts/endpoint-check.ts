import { lookup } from 'node:dns/promises';
import net from 'node:net';
import { isOutboundAddressAllowed } from '../../domain/outbound-addresses.ts';

const timeoutSeconds = 5;

/**
 * Sees whether a host that a user named may be connected to, and answers. The firewall holds every later connection of
 * s3fs to the same ranges, so a name that leads elsewhere afterwards gains nothing.
 * @returns what is wrong, in words for the user; null when nothing is
 */
export async function checkEndpoint(
  host: string,
  port: number,
  allowedRanges: readonly string[],
): Promise<string | null> {
  let addresses: { address: string }[];
  try {
    const late = AbortSignal.timeout(timeoutSeconds * 1000);
    addresses = await Promise.race([lookup(host, { all: true }), rejectedBy(late)]);
  } catch {
    return `The name ${host} could not be resolved`;
  }
  if (addresses.some(({ address }) => !isOutboundAddressAllowed(address, allowedRanges))) {
    return `${host} is at an address that may not be connected to`;
  }
  for (const { address } of addresses) if (await canConnect(address, port)) return null;
  return `${host} port ${port} could not be reached`;
}

function canConnect(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect({ host: address, port, timeout: timeoutSeconds * 1000 });
    const end = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.once('connect', () => end(true));
    socket.once('timeout', () => end(false));
    socket.once('error', () => end(false));
  });
}

function rejectedBy(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }));
}
