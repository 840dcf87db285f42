import { Resolver } from 'node:dns/promises';
import type { Socket } from 'node:net';
import net from 'node:net';
import { TLSSocket } from 'node:tls';
import { buildConnector } from 'undici';
import { isAddressIn, isOutboundAddressAllowed } from '../../domain/outbound-addresses.ts';
import { isOwnService, type OwnService } from '../../platform/config/own-services.ts';
import { ByteRates } from './byte-rates.ts';

/** No connection was made, because users may not use this address. */
export class AddressRefusedError extends Error {
  override name = 'AddressRefusedError';
}

/** The name has no address. */
export class NameNotResolvedError extends Error {
  override name = 'NameNotResolvedError';
}

export interface Egress {
  /** CIDR ranges that the operator opened in addition to the public internet. */
  allowedRanges: readonly string[];
  /** Addresses that are always refused, even within the opened ranges. */
  ownServices(): Promise<readonly OwnService[]>;
  /** CIDR ranges of sandboxes. Connections to them are refused too. */
  sandboxNetworks(): Promise<readonly string[]>;
  /** CA certificates in PEM, in addition to the usual ones. */
  ca?: string | undefined;
  /** Nameservers as `address` or `address:port`. The default is the machine's nameservers. */
  nameservers?: readonly string[];
  /** The limit of one HTTP/2 connection. The default is far above the replies of many requests. */
  maxBytesPerSecond?: number | undefined;
}

const maxAddresses = 4;
const connectTimeoutMs = 10_000;
/** The limit of one HTTP/2 connection: 64 requests at once, whose replies have 64 KiB, four times a second. */
const defaultBytesPerSecond = 16 * 1024 * 1024;
/** How long the addresses of our services and hosts are cached. They seldom change. */
const closedPlacesKnownMs = 10_000;

/** Addresses that stay closed within every range that the operator opened. */
interface ClosedPlaces {
  services: readonly OwnService[];
  networks: readonly string[];
}

/**
 * Makes the connections of webhooks. Each connection resolves the name, checks each address, and connects to exactly
 * the checked address, so changing DNS answers cannot bypass the check. The address of the connected socket is checked
 * again. Proxies of the environment are not used.
 */
export class CheckedConnector {
  readonly #egress: Egress;
  readonly #resolver = new Resolver({ timeout: 3000, tries: 3 });
  readonly #connectTo: buildConnector.connector;
  readonly #rates: ByteRates;
  #known: { untilMs: number; places: Promise<ClosedPlaces> } | null = null;

  constructor(egress: Egress) {
    this.#egress = egress;
    this.#rates = new ByteRates(egress.maxBytesPerSecond ?? defaultBytesPerSecond);
    if (egress.nameservers) this.#resolver.setServers([...egress.nameservers]);
    this.#connectTo = buildConnector({
      allowH2: true,
      timeout: connectTimeoutMs,
      ...(egress.ca !== undefined && { ca: egress.ca }),
    });
  }

  readonly connect: buildConnector.connector = (options, callback) => {
    this.#open(options).then(
      (socket) => {
        if (socket instanceof TLSSocket && socket.alpnProtocol === 'h2') this.#rates.watch(socket);
        callback(null, socket as never);
      },
      (error: Error) => callback(error, null),
    );
  };

  async #open(options: buildConnector.Options): Promise<Socket> {
    const port = Number(options.port) || (options.protocol === 'https:' ? 443 : 80);
    const allowed: string[] = [];
    for (const address of await this.#resolveAddresses(options.hostname)) {
      if (await this.#isAllowed(address, port)) allowed.push(address);
    }
    if (allowed.length === 0) throw new AddressRefusedError();
    let failure: unknown;
    for (const address of allowed.slice(0, maxAddresses)) {
      try {
        const socket = await this.#connectOnce({ ...options, hostname: address, ...chooseServername(options) });
        if (socket.remoteAddress && (await this.#isAllowed(socket.remoteAddress, port))) return socket;
        socket.destroy();
        failure ??= new AddressRefusedError();
      } catch (error) {
        // The first error is the most useful one, because later addresses often have a family that the machine lacks.
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

  /** Resolves names without the thread pool, because slow nameservers would occupy it. */
  async #resolveAddresses(hostname: string): Promise<string[]> {
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
    // The refusal looks like a closed port, so that users learn nothing about the services of the platform.
    throw Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
  }

  /** If the closed addresses are unreadable now, the cached ones apply, because our outage must not fail a delivery. */
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

/** The certificate is checked against the name and not the address. */
function chooseServername({ hostname, servername, protocol }: buildConnector.Options): { servername?: string } {
  if (protocol !== 'https:' || net.isIP(hostname)) return {};
  return { servername: servername || hostname };
}
