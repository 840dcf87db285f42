import { randomInt } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import type { UdpMapping } from '../../domain/sandboxes/ports.ts';
import type { OwnService } from '../../platform/config/own-services.ts';
import type { SandboxPlace, SandboxSpec } from '../driver.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { PortRange } from '../host-driver.ts';
import { runCommand } from '../process/command.ts';
import { until } from '../process/until.ts';
import { chooseSubnet } from './choose-subnet.ts';
import type { Copy } from './copy.ts';
import { hasFirewall, udpRoutesInKernel } from './firewall-table.ts';
import { type AddressRow, interfaceAddresses, routes } from './host-routes.ts';
import { formatIpv4, formatIpv4Network, type Ipv4Network, parseIpv4, parseIpv4Network } from './ipv4.ts';
import { firewallRules, type Server, type UdpRoute, udpRouteRules } from './nft-rules.ts';
import { droppingChains, forgetOtherFirewalls, passOtherFirewalls } from './other-firewalls.ts';
import { ownResolvers, upstreamResolvers } from './resolvers.ts';
import type { SandboxRecord, SandboxRecords } from './sandbox-records.ts';
import { chooseUdpRange } from './udp-range.ts';

/** Interface groups, by which the firewall matches sandboxes. */
const internetGroup = 20471;
const closedGroup = 20470;

/** Ranges of 65536 ids for sandboxes, one for each address. They are above the ids of Docker and systemd. */
const firstUid = 0x7000_0000;
const uidRanges = 0x8000;

const guardIntervalSeconds = 5;

/** The facts that the shim and the container's configuration need for one sandbox's network. */
export interface SandboxConnection {
  address: string;
  gateway: string;
  /** The host's end of the pair of interfaces. */
  interface: string;
  mtu: number;
  group: number;
  /** Differs between the sandboxes of this machine. */
  number: number;
  /** The ids of the sandbox are this number plus 0 to 65535. */
  uidBase: number;
}

/** Options for the network of a copy. */
interface NetworkOptions {
  subnet?: string;
  dns?: string[];
  /** Undefined: a free block is selected. Null: none. */
  udpPorts?: PortRange | null;
  /** TCP ports of the gateway address that all sandboxes may reach. */
  hostServicePorts?: number[];
  openServers?: Server[];
  /** IPv4 networks, as CIDR, whose machines may open TCP connections to sandboxes. */
  routedNetworks?: readonly string[];
  bandwidthMbps?: number;
  /** CIDR ranges in addition to the public internet that object storage may be in. */
  outboundRanges?: readonly string[];
  /** The current addresses of the platform's own services. */
  ownServices?: () => Promise<OwnService[]>;
  logger: DriverLogger;
}

/**
 * Addresses, routes and firewall of one copy. Each sandbox has its own link: the host routes one address to each pair
 * of interfaces. So packets between two sandboxes pass through the host, and its firewall drops them.
 */
export class SandboxNetwork {
  readonly subnet: string;
  readonly resolvers: string[];
  /** The host's address on every sandbox's link. */
  readonly gateway: string;
  /** Ports of the host that may be forwarded to sandboxes. Null: none. */
  readonly udpRange: PortRange | null;
  readonly #options: NetworkOptions;
  readonly #copy: Copy;
  readonly #network: Ipv4Network;
  readonly #logger: DriverLogger;
  /** Used addresses, with their containers. */
  readonly #taken = new Map<string, string>();
  /** Ports of the host by the address to which they are forwarded. */
  readonly #exposed = new Map<string, readonly UdpMapping[]>();
  /** Changes of the firewall run one after the other. Each writes the state at the time of its turn. */
  #firewallWrites: Promise<void> = Promise.resolve();
  #hostAddress: string | null = null;
  #next: number;
  #mtu = 1500;
  #guard: NodeJS.Timeout | undefined;
  #ownServices: readonly OwnService[] = [];

  private constructor(
    copy: Copy,
    network: Ipv4Network,
    resolvers: string[],
    udpRange: PortRange | null,
    options: NetworkOptions,
  ) {
    this.#copy = copy;
    this.#network = network;
    this.subnet = formatIpv4Network(network);
    this.gateway = formatIpv4(network.base + 1);
    this.resolvers = resolvers;
    this.udpRange = udpRange;
    this.#options = options;
    this.#logger = options.logger;
    // The first address is random, so that a client that still knows an address does not reach another sandbox there.
    this.#next = randomInt(this.#hosts());
  }

  /**
   * Sets up or repairs the copy's network.
   * @throws {Error} when the subnet is in use by something else, or the machine refuses
   */
  static async open(copy: Copy, options: NetworkOptions): Promise<SandboxNetwork> {
    const subnet = await chooseSubnet(copy, options.subnet);
    const resolvers = options.dns?.length ? options.dns : await upstreamResolvers();
    for (const resolver of resolvers) parseIpv4(resolver);
    const udpRange = options.udpPorts === null ? null : await chooseUdpRange(copy, options.udpPorts);
    const network = new SandboxNetwork(copy, subnet, resolvers, udpRange, options);
    await network.#setUp();
    return network;
  }

  /** Reserves a free address for a container. @throws {Error} when there is none */
  take(owner: string, allowInternetAccess: boolean): SandboxConnection {
    for (let tried = 0; tried < this.#hosts(); tried += 1) {
      this.#next = (this.#next + 1) % this.#hosts();
      const address = formatIpv4(this.#network.base + 2 + this.#next);
      if (this.#taken.has(address) || existsSync(`/sys/class/net/${this.interfaceName(address)}`)) continue;
      this.#taken.set(address, owner);
      return this.createConnection(address, allowInternetAccess);
    }
    throw new Error(`no address of ${this.subnet} is free`);
  }

  /** Registers the address of a sandbox of an earlier process. */
  adopt(address: string, owner: string): void {
    this.#taken.set(address, owner);
  }

  createConnection(address: string, allowInternetAccess: boolean): SandboxConnection {
    const number = parseIpv4(address) % uidRanges;
    return {
      address,
      gateway: this.gateway,
      interface: this.interfaceName(address),
      mtu: this.#mtu,
      group: allowInternetAccess ? internetGroup : closedGroup,
      number,
      uidBase: firstUid + number * 0x1_0000,
    };
  }

  interfaceName(address: string): string {
    return `${this.#copy.interface}-${(parseIpv4(address) - this.#network.base).toString(16)}`;
  }

  /** Allows or forbids a running sandbox to reach the internet. */
  async setInternetAccess(address: string, allowed: boolean): Promise<void> {
    const group = String(allowed ? internetGroup : closedGroup);
    await writeFile(`/sys/class/net/${this.interfaceName(address)}/netdev_group`, group);
  }

  /** The address at which clients reach this machine. If it is unknown, an address that only this machine can reach. */
  get hostAddress(): string {
    return this.#hostAddress ?? this.gateway;
  }

  /** Maps exactly these ports of the host to the sandbox with that address. */
  async expose(address: string, ports: readonly UdpMapping[]): Promise<void> {
    if (JSON.stringify(ports) === JSON.stringify(this.#exposed.get(address) ?? [])) return;
    const claimed = new Set(ports.map((each) => each.hostPort));
    for (const [other, its] of this.#exposed) {
      // A port belongs to the sandbox that got it last.
      if (other !== address && its.some((each) => claimed.has(each.hostPort))) {
        this.#keepExposed(
          other,
          its.filter((each) => !claimed.has(each.hostPort)),
        );
      }
    }
    this.#keepExposed(address, ports);
    await this.#writeUdpRoutes();
  }

  /** Whether a port of the host is forwarded to the sandbox with that address. */
  isExposed(address: string): boolean {
    return this.#exposed.has(address);
  }

  /** Waits until the kernel has removed the interface of an ended sandbox, then releases its address. */
  async release(address: string, owner: string): Promise<void> {
    // The address already belongs to another container.
    if ((this.#taken.get(address) ?? owner) !== owner) return;
    const name = this.interfaceName(address);
    const there = () => existsSync(`/sys/class/net/${name}`);
    if (this.#exposed.has(address)) await this.expose(address, []);
    if (!(await until(() => !there(), { timeoutSeconds: 3, everyMs: 3 }))) await this.#deleteInterface(name);
    this.#taken.delete(address);
  }

  /** The existing interfaces of sandboxes. */
  interfaces(): string[] {
    return readdirSync('/sys/class/net').filter((name) => name.startsWith(`${this.#copy.interface}-`));
  }

  async removeInterface(name: string): Promise<void> {
    await this.#deleteInterface(name);
  }

  /** The addresses of the platform's own services, which the firewall refuses. */
  get ownServices(): readonly OwnService[] {
    return this.#ownServices;
  }

  /** The text of `/etc/hosts`, `/etc/hostname` and `/etc/resolv.conf` in a sandbox. */
  files(hostname: string, address: string): Record<'hosts' | 'hostname' | 'resolv.conf', string> {
    return {
      hosts: `127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n${address} ${hostname}\n`,
      hostname: `${hostname}\n`,
      'resolv.conf': this.resolvers.map((resolver) => `nameserver ${resolver}\n`).join(''),
    };
  }

  close(): void {
    clearInterval(this.#guard);
  }

  /** Removes everything of the copy's network. */
  async teardown(): Promise<void> {
    this.close();
    for (const name of this.interfaces()) await this.#deleteInterface(name);
    if (existsSync(`/sys/class/net/${this.#copy.interface}`)) await this.#deleteInterface(this.#copy.interface);
    if ((await routes()).some((route) => route.dst === this.subnet)) {
      await runCommand('ip', ['route', 'del', 'unreachable', this.subnet]);
    }
    await forgetOtherFirewalls(this.#interfacePrefix);
    if (await hasFirewall(this.#copy.table)) await runCommand('nft', ['delete', 'table', 'inet', this.#copy.table]);
  }

  /** The number of possible addresses of sandboxes: all except the network's, the gateway's and the last. */
  #hosts(): number {
    return Math.min(this.#network.size - 3, uidRanges - 3);
  }

  async #setUp(): Promise<void> {
    const addresses = await interfaceAddresses();
    const uplinkName = (await routes()).find((route) => route.dst === 'default')?.dev;
    const uplink = addresses.find((row) => row.ifname === uplinkName);
    this.#mtu = uplink?.mtu ?? 1500;
    this.#hostAddress = uplink?.addr_info[0]?.local ?? null;
    this.#ownServices = (await this.#options.ownServices?.()) ?? [];
    // The firewall is loaded before the first sandbox can send anything.
    await this.#loadFirewall(addresses);
    const others = await passOtherFirewalls(this.#interfacePrefix);
    const advice = [...others.advice, ...(await droppingChains(this.#interfacePrefix))];
    for (const each of advice) this.#logger.warn({}, each);
    await this.#holdGateway();
    if ((await readFile('/proc/sys/net/ipv4/ip_forward', 'latin1')).trim() !== '1') {
      await writeFile('/proc/sys/net/ipv4/ip_forward', '1');
      this.#logger.info({}, 'turned on IPv4 forwarding (net.ipv4.ip_forward) for the sandboxes');
    }
    this.#guard = setInterval(() => void this.#putFirewallBack(), guardIntervalSeconds * 1000).unref();
  }

  /** Makes the interface with the gateway address of all sandboxes. */
  async #holdGateway(): Promise<void> {
    const holder = this.#copy.interface;
    const made = existsSync(`/sys/class/net/${holder}`) ? '' : `link add name ${holder} type bridge\n`;
    await runCommand('ip', ['-batch', '-'], {
      input: `${made}link set dev ${holder} addrgenmode none
link set dev ${holder} up
address replace ${this.gateway}/32 dev ${holder}
route replace unreachable ${this.subnet}
`,
    });
  }

  get #interfacePrefix(): string {
    return `${this.#copy.interface}-`;
  }

  async #loadFirewall(addresses: AddressRow[]): Promise<void> {
    const hostNetworks = new Set<string>();
    for (const row of addresses.filter((each) => !each.ifname.startsWith(this.#copy.interface))) {
      for (const { local, address, prefixlen } of row.addr_info) {
        hostNetworks.add(formatIpv4Network(parseIpv4Network(`${address ?? local}/${prefixlen}`)));
      }
    }
    await this.#writeFirewall(() =>
      firewallRules({
        table: this.#copy.table,
        interfacePrefix: this.#interfacePrefix,
        internetGroup,
        subnet: this.subnet,
        resolvers: this.resolvers,
        hostNetworks: [...hostNetworks],
        hostServices: (this.#options.hostServicePorts ?? []).map((port) => ({ address: this.gateway, port })),
        openServers: this.#options.openServers ?? [],
        routedNetworks: this.#options.routedNetworks ?? [],
        bandwidthMbps: this.#options.bandwidthMbps,
        udpRange: this.udpRange,
        udpRoutes: this.#udpRoutes(),
        storage: {
          gid: this.#copy.storageGid,
          resolvers: ownResolvers(),
          allowedRanges: this.#options.outboundRanges ?? [],
          ownServices: this.#ownServices,
        },
      }),
    );
  }

  #writeUdpRoutes(): Promise<void> {
    return this.#writeFirewall(() => udpRouteRules({ table: this.#copy.table, udpRoutes: this.#udpRoutes() }));
  }

  async #writeFirewall(rules: () => string): Promise<void> {
    const written = this.#firewallWrites.then(async () => {
      await runCommand('nft', ['-f', '-'], { input: rules() });
    });
    this.#firewallWrites = written.catch(() => undefined);
    await written;
  }

  #udpRoutes(): UdpRoute[] {
    return [...this.#exposed].flatMap(([address, ports]) => ports.map((each) => ({ ...each, address })));
  }

  #keepExposed(address: string, ports: readonly UdpMapping[]): void {
    if (ports.length === 0) this.#exposed.delete(address);
    else this.#exposed.set(address, ports);
  }

  /**
   * Restores the firewall. A restarted firewall service may flush every table, which would open the host to sandboxes.
   */
  async #putFirewallBack(): Promise<void> {
    try {
      if (!existsSync(`/sys/class/net/${this.#copy.interface}`)) {
        await this.#holdGateway();
        this.#logger.error(
          { interface: this.#copy.interface },
          "the sandboxes' gateway had been removed and was restored",
        );
      }
      const { changed } = await passOtherFirewalls(this.#interfacePrefix);
      if (changed.length > 0) {
        this.#logger.warn({ changed }, 'another firewall blocked connections of sandboxes; its exemption was restored');
      }
      const services = (await this.#options.ownServices?.()) ?? [];
      if (JSON.stringify(services) !== JSON.stringify(this.#ownServices)) {
        this.#ownServices = services;
        await this.#loadFirewall(await interfaceAddresses());
        return;
      }
      const udpRoutes = await udpRoutesInKernel(this.#copy.table);
      if (udpRoutes) return await this.#putUdpRoutesBack(udpRoutes);
      await this.#loadFirewall(await interfaceAddresses());
      this.#logger.error({ table: this.#copy.table }, "the sandboxes' firewall had been removed and was restored");
    } catch (error) {
      this.#logger.error({ err: error, table: this.#copy.table }, "the sandboxes' firewall could not be checked");
    }
  }

  async #putUdpRoutesBack(found: string[]): Promise<void> {
    const wanted = this.#udpRoutes().map((each) => `${each.hostPort} → ${each.address}:${each.servicePort}`);
    if (JSON.stringify(found.sort()) === JSON.stringify(wanted.sort())) return;
    await this.#writeUdpRoutes();
    this.#logger.warn(
      { table: this.#copy.table },
      'the mappings of UDP ports of sandboxes were wrong and were restored',
    );
  }

  async #deleteInterface(name: string): Promise<void> {
    try {
      await runCommand('ip', ['link', 'delete', 'dev', name]);
    } catch (error) {
      if (existsSync(`/sys/class/net/${name}`)) throw error;
    }
  }
}

/** The UDP ports of sandboxes that ports of the host lead to. */
export class ExposedPorts {
  readonly #records: SandboxRecords;
  readonly #network: SandboxNetwork;

  constructor(parts: { records: SandboxRecords; network: SandboxNetwork }) {
    this.#records = parts.records;
    this.#network = parts.network;
  }

  /** Applies the fields of the sandbox's row that are needed from its start. */
  async exposeAs({ sandboxId, udpPorts }: SandboxSpec, { address }: SandboxPlace): Promise<void> {
    if (udpPorts.length === 0 && !this.#network.isExposed(address)) return;
    const record = this.#records.get(sandboxId);
    if (record) await this.expose(record, udpPorts);
  }

  /** Writes the record first, so that after a crash another host worker restores the same ports. */
  async expose(record: SandboxRecord, ports: readonly UdpMapping[]): Promise<void> {
    if (JSON.stringify(ports) !== JSON.stringify(record.udpPorts ?? [])) {
      await this.#records.write({ ...record, udpPorts: [...ports] });
    }
    await this.#network.expose(record.address, ports);
  }
}
