import { Resolver } from 'node:dns/promises';
import type { Socket } from 'node:net';
import net from 'node:net';
import { buildConnector } from 'undici';
import { isOwnService, type OwnService } from '../config/own-services.ts';
import { isAddressIn, isOutboundAddressAllowed } from '../domain/outbound-addresses.ts';

/** No connection was made: users may not name this address. */
export class AddressRefusedError extends Error {
  override name = 'AddressRefusedError';
}

/** The name has no address. */
export class NameNotResolvedError extends Error {
  override name = 'NameNotResolvedError';
}

export interface Egress {
  /** CIDR ranges that the operator opened beyond the public internet. */
  allowedRanges: readonly string[];
  /** Addresses that are always refused, also within those ranges. */
  ownServices(): Promise<readonly OwnService[]>;
  /** CIDR ranges of sandboxes, which no connection may lead to either. */
  sandboxNetworks(): Promise<readonly string[]>;
  /** CA certificates beside the usual ones, as PEM. */
  ca?: string | undefined;
  /** Nameservers as `address` or `address:port`; the machine's by default. */
  nameservers?: readonly string[];
}

const mostAddresses = 4;
const connectTimeoutMs = 10_000;
/** Names of one machine seldom move; services of the platform and its hosts seldom change. */
const closedPlacesKnownMs = 10_000;

/** What is closed within every range that the operator opened. */
interface ClosedPlaces {
  services: readonly OwnService[];
  networks: readonly string[];
}

/**
 * Makes the connections of webhooks. Each connection resolves the name, checks each of its addresses, and connects to
 * exactly the checked address, so that a name whose answer changes gains nothing. The address of the connected socket
 * is checked once more. Proxies of the environment are not used.
 */
export class CheckedConnector {
  readonly #egress: Egress;
  readonly #resolver = new Resolver({ timeout: 3000, tries: 3 });
  readonly #connectTo: buildConnector.connector;
  #known: { untilMs: number; places: Promise<ClosedPlaces> } | null = null;

  constructor(egress: Egress) {
    this.#egress = egress;
    if (egress.nameservers) this.#resolver.setServers([...egress.nameservers]);
    this.#connectTo = buildConnector({
      allowH2: true,
      timeout: connectTimeoutMs,
      ...(egress.ca !== undefined && { ca: egress.ca }),
    });
  }

  readonly connect: buildConnector.connector = (options, callback) => {
    this.#open(options).then(
      (socket) => callback(null, socket as never),
      (error: Error) => callback(error, null),
    );
  };

  async #open(options: buildConnector.Options): Promise<Socket> {
    const port = Number(options.port) || (options.protocol === 'https:' ? 443 : 80);
    const allowed: string[] = [];
    for (const address of await this.#addressesOf(options.hostname)) {
      if (await this.#isAllowed(address, port)) allowed.push(address);
    }
    if (allowed.length === 0) throw new AddressRefusedError();
    let failure: unknown;
    for (const address of allowed.slice(0, mostAddresses)) {
      try {
        const socket = await this.#connectOnce({ ...options, hostname: address, ...servernameOf(options) });
        if (socket.remoteAddress && (await this.#isAllowed(socket.remoteAddress, port))) return socket;
        socket.destroy();
        failure ??= new AddressRefusedError();
      } catch (error) {
        // The first error says most: later addresses are often of a family that the machine does not have.
        failure ??= error;
      }
    }
    throw failure;
  }

  #connectOnce(options: buildConnector.Options): Promise<Socket> {
    return new Promise((resolve, reject) => {
      this.#connectTo(options, (error, socket) => (error ? reject(error) : resolve(socket as Socket)));
    });
  }

  /** Looks names up without the thread pool, which slow nameservers would occupy. */
  async #addressesOf(hostname: string): Promise<string[]> {
    if (net.isIP(hostname)) return [hostname];
    if (/(^|\.)localhost\.?$/i.test(hostname)) return ['127.0.0.1', '::1'];
    const answers = await Promise.allSettled([this.#resolver.resolve4(hostname), this.#resolver.resolve6(hostname)]);
    const addresses = answers.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
    if (addresses.length === 0) throw new NameNotResolvedError();
    return addresses;
  }

  async #isAllowed(address: string, port: number): Promise<boolean> {
    if (!isOutboundAddressAllowed(address, this.#egress.allowedRanges)) return false;
    const { services, networks } = await this.#closedPlaces();
    if (!isOwnService(services, address, port) && !isAddressIn(address, networks)) return true;
    // Looks like a closed port: what the platform consists of is nobody's business.
    throw Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
  }

  /** Where they cannot be read now, those that were read before count: an outage of ours is no endpoint's failure. */
  #closedPlaces(): Promise<ClosedPlaces> {
    const before = this.#known;
    if (before && Date.now() < before.untilMs) return before.places;
    const read = Promise.all([this.#egress.ownServices(), this.#egress.sandboxNetworks()]).then(
      ([services, networks]) => ({ services, networks }),
    );
    const places = before ? read.catch(() => before.places) : read;
    this.#known = { untilMs: Date.now() + closedPlacesKnownMs, places };
    places.catch(() => {
      this.#known = null;
    });
    return places;
  }
}

/** The certificate is checked against the name, not the address. */
function servernameOf({ hostname, servername, protocol }: buildConnector.Options): { servername?: string } {
  if (protocol !== 'https:' || net.isIP(hostname)) return {};
  return { servername: servername || hostname };
}
