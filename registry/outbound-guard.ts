import { lookup } from 'node:dns/promises';
import net from 'node:net';
import os from 'node:os';
import ipaddr from 'ipaddr.js';
import { type NamedService, namedServices, type OwnService, ownServices } from '../config/own-services.ts';
import type { Settings } from '../config/settings.ts';
import { isOutboundAddressAllowed } from '../domain/outbound-addresses.ts';

/** The host that a user named leads to a forbidden address. */
export class ForbiddenAddressError extends Error {
  override name = 'ForbiddenAddressError';
}

/** The name of a host does not resolve. */
export class UnknownHostError extends Error {
  override name = 'UnknownHostError';
}

/**
 * Checks every connection to a host that a user named, by the address of the connection: no private networks except for
 * ranges that the operator opened, and never a service of the platform.
 */
export class OutboundGuard {
  readonly #ranges: readonly string[];
  readonly #services: readonly NamedService[];

  constructor(settings: Settings) {
    this.#ranges = settings.PLATFORM_OUTBOUND_RANGES;
    this.#services = namedServices(settings);
  }

  /**
   * An allowed address of the host.
   * @throws {ForbiddenAddressError | UnknownHostError}
   */
  async resolve(host: string, port: number): Promise<{ address: string; family: number }> {
    const own = await ownServices(this.#services);
    const found = net.isIP(host) ? [{ address: host, family: net.isIP(host) }] : await addressesOf(host);
    const allowed = found.find(({ address }) => this.#isAllowed(address, port, own));
    if (!allowed) throw new ForbiddenAddressError(`${host}:${port} is an address that may not be connected to`);
    return allowed;
  }

  #isAllowed(address: string, port: number, own: readonly OwnService[]): boolean {
    if (!isOutboundAddressAllowed(address, this.#ranges)) return false;
    // An IPv4-mapped address counts as its IPv4 address.
    const plain = ipaddr.process(address).toString();
    const known = isOfThisMachine(plain) ? 'local' : plain;
    return !own.some((service) => service.port === port && service.address === known);
  }
}

async function addressesOf(host: string): Promise<{ address: string; family: number }[]> {
  try {
    return await lookup(host, { all: true });
  } catch (error) {
    throw new UnknownHostError(`The host ${host} is not known`, { cause: error });
  }
}

function isOfThisMachine(address: string): boolean {
  if (/^(127\.|0\.0\.0\.0$|::1?$)/.test(address)) return true;
  return Object.values(os.networkInterfaces()).some((each) => (each ?? []).some((own) => own.address === address));
}
