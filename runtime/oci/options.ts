import type { OwnService } from '../../config/own-services.ts';
import type { SandboxId } from '../../domain/ids.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { HostDriver, PortRange } from '../host-driver.ts';
import type { HostRegistry } from '../images/registry-pull.ts';
import type { ImageLimits } from '../images/unpack-layers.ts';
import type { Inventory } from './inventory.ts';
import type { Server } from './nft-rules.ts';
import type { ReconcileReport } from './reconcile.ts';

export interface OciDriverOptions {
  /** State and disks of this copy lie in its folder `oci`. */
  dataDir: string;
  /** Unpacked images and assembled runtime folders; many copies may share it. */
  cacheDir: string;
  /** The built agent: the folder with `agent.cjs`. */
  agentDir: string;
  /** Empty: crun where it works on this machine, else runc. */
  runtime?: 'crun' | 'runc';
  /** `10.1.0.0/20`, a /16 to /24. Empty: a free /20 of 10.0.0.0/8, kept in the data folder. */
  subnet?: string;
  /** Resolvers for sandboxes. Empty: the host's upstream servers. */
  dns?: string[];
  /** Ports of the host that may lead to UDP ports of sandboxes. Undefined: a free block, kept. Null: none. */
  udpPorts?: PortRange | null;
  /** TCP ports, on the address of the host that sandboxes see, that every one of them may reach. */
  hostServicePorts?: number[];
  /** Servers in private networks, or on the host, that sandboxes with internet access may reach by TCP and UDP. */
  openServers?: Server[];
  /** Ranges beyond the public internet, as CIDR, that object storage may be in. Empty: none. */
  outboundRanges?: readonly string[];
  /** The present addresses of the platform's own services: neither object storage nor sandboxes reach them. */
  ownServices?: () => Promise<OwnService[]>;
  /** IPv4 networks, as CIDR, whose machines may open TCP connections to sandboxes. Empty: only this host may. */
  routedNetworks?: readonly string[];
  /** How long a bucket may take to be mounted, 20 s by default. */
  mountTimeoutSeconds?: number;
  /** What each sandbox may send to other machines, and receive from them. Undefined: not limited. */
  bandwidthMbps?: number;
  /** Frozen sandboxes kept ready for `builtin:base`. */
  warmPoolSize: number;
  /** What frozen sandboxes of all templates may hold together. Undefined: a sixteenth of the machine's memory. */
  warmPoolMemoryMb?: number;
  /** As many at most, of one template, after bursts of creates. Undefined: never more than `warmPoolSize`. */
  warmPoolMaxSize?: number;
  /** The image of `builtin:base`. Empty: made from Debian packages. */
  baseImage?: string;
  /** Folders of the recipes of `builtin:…` images beside the base image, by image. Empty: there are none. */
  interpreterRecipes?: Readonly<Record<string, string>>;
  /** Plain HTTP to registries on loopback. */
  registryInsecureHttp?: boolean;
  /** What the images of all templates may take of the disk, unpacked. Undefined: no limit. */
  imageCacheBytes?: number;
  /** What one image may be, unpacked. */
  imageLimits?: ImageLimits;
  /** Where the images of templates lie. Undefined: there is none. */
  registry?: HostRegistry;
  /** How long a sandbox's agent may take to answer after its start, 30 s by default; after a thaw at most 10 s. */
  agentStartTimeoutSeconds?: number;
  /** How long the freezer may take, 10 s by default. */
  pauseTimeoutSeconds?: number;
  logger: DriverLogger;
  /** Called with the duration of each step of a create or resume. */
  onTrace?: (trace: CreateTrace) => void;
}

/** Milliseconds from the call to each step, in their order. */
export interface CreateTrace {
  sandboxId: SandboxId;
  from: 'pool' | 'cold' | 'thaw' | 'existing';
  steps: Record<string, number>;
}

/** The driver of this machine, with methods for its tests. */
export interface OciDriver extends HostDriver {
  /** Names this copy in cgroups, interfaces and the firewall. */
  readonly copyId: string;
  readonly subnet: string;
  readonly gateway: string;
  readonly diskFolder: string;
  readonly runtime: 'crun' | 'runc';
  /** Frozen members of the pool that can be claimed. */
  readonly poolReady: number;
  /** Those of one template's image. */
  poolReadyOf(image: string): number;
  reconcile(knownSandboxIds: Iterable<string>): Promise<ReconcileReport>;
  /** The containers, links and folders of this copy, read from the kernel. */
  inventory(): Promise<Inventory>;
  /** Ends every sandbox; disks stay. */
  stopAll(): Promise<void>;
  /** `close`, then removes every sandbox and everything else of this copy from the machine. */
  teardown(): Promise<void>;
}
