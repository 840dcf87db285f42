import net from 'node:net';
import { isAddressIn, isOutboundAddressAllowed } from '../../../domain/outbound-addresses.ts';
import type { MountSlot } from '../../../domain/sandboxes/object-storage.ts';
import { readStorageTarget, type StorageTarget } from '../../../domain/sandboxes/storage-endpoint.ts';
import { isOwnService, type OwnService } from '../../../platform/config/own-services.ts';
import { resolveHost } from '../../../platform/config/resolve-host.ts';
import { mountFailure } from '../../mounts/failures.ts';
import type { Cluster } from '../cluster.ts';

const nodesTimeoutMs = 5000;

/** How a mount pod reaches its bucket. */
export interface StorageRoute {
  target: StorageTarget;
  /** The IPv4 addresses. Empty: the endpoint is forbidden, and looks to users like one that does not answer. */
  addresses: string[];
  /** Whether the endpoint is in a range that the operator opened. */
  isOpened: boolean;
  /**
   * Whether s3fs may use only these addresses. Otherwise s3fs looks the name up itself and can reach public addresses.
   */
  isPinned: boolean;
}

export interface EndpointGuardOptions {
  /** CIDR ranges beyond the public internet that the operator opened. */
  outboundRanges: readonly string[];
  /** CIDR ranges that stay closed even inside a range that the operator opened. They include the range of pods. */
  closedRanges: readonly string[];
  /** Returns the current addresses of the platform's own services. */
  ownServices: () => Promise<OwnService[]>;
  /** `https://host:port` of the API server. */
  apiServer: string;
  /** Whether mount pods can use DNS. */
  hasResolvers: boolean;
}

/** Decides which endpoints of buckets mount pods may reach. The policy of each mount pod enforces the decision. */
export class EndpointGuard {
  readonly #cluster: Cluster;
  readonly #options: EndpointGuardOptions;

  constructor(cluster: Cluster, options: EndpointGuardOptions) {
    this.#cluster = cluster;
    this.#options = options;
  }

  /** @throws {DriverError} `object_storage_mount_failed` */
  async resolveRoute(slot: MountSlot): Promise<StorageRoute> {
    const { outboundRanges, closedRanges, hasResolvers } = this.#options;
    const target = readStorageTarget(slot);
    if ('reason' in target) throw mountFailure(slot, `its ${target.field} ${target.reason}`);
    const { host, port } = target;
    const found = await resolveAddresses(host);
    if (found.length === 0) throw mountFailure(slot, `The name ${host} could not be resolved`);
    if (!found.every((address) => isOutboundAddressAllowed(address, outboundRanges))) {
      throw mountFailure(slot, `${host} is at an address that is not allowed`);
    }
    const isOpened = found.some((address) => isAddressIn(address, outboundRanges));
    const [own, ofCluster] = await Promise.all([this.#options.ownServices(), this.#addressesOfCluster()]);
    const addresses = found.filter(
      (address) =>
        net.isIPv4(address) &&
        !isAddressIn(address, closedRanges) &&
        !ofCluster.has(address) &&
        !isOwnService(own, address, port),
    );
    return { target, addresses, isOpened, isPinned: isOpened || !hasResolvers || net.isIP(host) !== 0 };
  }

  /** The addresses of the API server and of the nodes. */
  async #addressesOfCluster(): Promise<Set<string>> {
    const { hostname } = new URL(this.#options.apiServer);
    const [nodes, api] = await Promise.all([this.#cluster.listNodes(nodesTimeoutMs), resolveAddresses(hostname)]);
    return new Set([...api, ...nodes.flatMap(({ status }) => (status?.addresses ?? []).map(({ address }) => address))]);
  }
}

/** The addresses of a name. Empty if the name cannot be resolved in time. */
async function resolveAddresses(host: string): Promise<string[]> {
  if (net.isIP(host)) return [host];
  try {
    return (await resolveHost(host)).map(({ address }) => address);
  } catch {
    return [];
  }
}
