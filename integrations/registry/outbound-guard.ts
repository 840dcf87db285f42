import net from 'node:net';
import { isAddressIn, isOutboundAddressAllowed } from '../../domain/outbound-addresses.ts';
import { isOwnService, type NamedService, namedServices, ownServices } from '../../platform/config/own-services.ts';
import { resolveHost } from '../../platform/config/resolve-host.ts';
import type { Settings } from '../../platform/config/settings.ts';

/** A user-supplied host has a forbidden address. */
export class ForbiddenAddressError extends Error {
  override name = 'ForbiddenAddressError';
}

/** The name of a host does not resolve, or not in time. */
export class UnknownHostError extends Error {
  override name = 'UnknownHostError';
}

/**
 * Checks the address of every connection to a user-supplied host. Private networks are refused, except ranges that the
 * operator opened. Services of the platform and sandboxes are always refused.
 */
export class OutboundGuard {
  readonly #ranges: readonly string[];
  readonly #services: readonly NamedService[];
  readonly #sandboxNetworks: () => Promise<readonly string[]>;

  /** @param sandboxNetworks the networks of all hosts, as CIDR */
  constructor(settings: Settings, sandboxNetworks: () => Promise<readonly string[]>) {
    this.#sandboxNetworks = sandboxNetworks;
    this.#ranges = settings.PLATFORM_OUTBOUND_RANGES;
    this.#services = namedServices(settings);
  }

  /**
   * An allowed address of the host.
   * @throws {ForbiddenAddressError | UnknownHostError}; as from a closed port when it is a service of the platform or a
   * sandbox
   */
  async resolve(host: string, port: number, signal?: AbortSignal): Promise<{ address: string; family: number }> {
    const [own, networks] = await Promise.all([ownServices(this.#services, signal), this.#sandboxNetworks()]);
    const found = net.isIP(host) ? [{ address: host, family: net.isIP(host) }] : await resolveAddresses(host, signal);
    const inRanges = found.filter(({ address }) => isOutboundAddressAllowed(address, this.#ranges));
    if (inRanges.length === 0) {
      throw new ForbiddenAddressError(`${host}:${port} is an address that may not be connected to`);
    }
    const allowed = inRanges.find(
      ({ address }) => !isOwnService(own, address, port) && !isAddressIn(address, networks),
    );
    // The refusal looks like a closed port, so that users learn nothing about the services of the platform.
    if (!allowed) throw Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
    return allowed;
  }
}

async function resolveAddresses(
  host: string,
  signal: AbortSignal | undefined,
): Promise<{ address: string; family: number }[]> {
  try {
    return await resolveHost(host, { signal });
  } catch (error) {
    throw new UnknownHostError(`The host ${host} is not known`, { cause: error });
  }
}
