import type { SandboxId } from '../../domain/ids.ts';
import type { OwnService } from '../../platform/config/own-services.ts';
import type { DriverLogger } from '../driver-logger.ts';
import type { PortRange } from '../host-driver.ts';
import type { HostRegistry } from '../images/registry-pull.ts';
import type { ImageLimits } from '../images/unpack-layers.ts';
import type { Server } from './nft-rules.ts';

export interface OciDriverOptions {
  /** The data folder. State and disks of this copy are in its folder `oci`. */
  dataDir: string;
  /** The folder of unpacked images and runtime folders. Several copies may share it. */
  cacheDir: string;
  /** The built agent: the folder with `agent.cjs`. */
  agentDir: string;
  /** Certificates, each in PEM with a newline at its end, that sandboxes trust in addition to those of their image. Absent: none. */
  sandboxCa?: readonly string[];
  /** Empty: crun if it works on this machine, otherwise runc. */
  runtime?: 'crun' | 'runc';
  /** For example `10.1.0.0/20`, a /16 to /24. Empty: a free /20 of 10.0.0.0/8, stored in the data folder. */
  subnet?: string;
  /** Resolvers for sandboxes. Empty: the host's upstream servers. */
  dns?: string[];
  /**
   * Ports of the host that may be forwarded to UDP ports of sandboxes. Undefined: a free block, which is stored. Null:
   * none.
   */
  udpPorts?: PortRange | null;
  /** TCP ports at the host's address for sandboxes that all sandboxes may reach. */
  hostServicePorts?: number[];
  /** Servers in private networks, or on the host, that sandboxes with internet access may reach by TCP and UDP. */
  openServers?: Server[];
  /** CIDR ranges in addition to the public internet that object storage may be in. Empty: none. */
  outboundRanges?: readonly string[];
  /** The current addresses of the platform's own services, which neither object storage nor sandboxes may reach. */
  ownServices?: () => Promise<OwnService[]>;
  /** IPv4 networks, as CIDR, whose machines may open TCP connections to sandboxes. Empty: only this host may. */
  routedNetworks?: readonly string[];
  /** The time limit to mount a bucket, 20 s by default. */
  mountTimeoutSeconds?: number;
  /** The rate at which each sandbox may send to other machines, and receive from them. Undefined: unlimited. */
  bandwidthMbps?: number;
  /** The number of frozen sandboxes that are kept ready for `builtin:base`. */
  warmPoolSize: number;
  /** The memory that frozen sandboxes of all templates may use. Undefined: a sixteenth of the machine's memory. */
  warmPoolMemoryMb?: number;
  /** The maximum number of frozen sandboxes of one template, after bursts of creates. Undefined: `warmPoolSize`. */
  warmPoolMaxSize?: number;
  /** The image for `builtin:base`. Empty: made from Debian packages. */
  baseImage?: string;
  /** Folders of the recipes of `builtin:…` images except the base image, by image. Empty: none. */
  interpreterRecipes?: Readonly<Record<string, string>>;
  /** Use plain HTTP for registries on loopback. */
  registryInsecureHttp?: boolean;
  /** The disk space for unpacked images of all templates. Undefined: unlimited. */
  imageCacheBytes?: number;
  /** The limits of one unpacked image. */
  imageLimits?: ImageLimits;
  /** The registry with the images of templates. Undefined: there is none. */
  registry?: HostRegistry;
  /**
   * The time limit of a sandbox's agent to answer after its start, 30 s by default. After a thaw it is at most 10 s.
   */
  agentStartTimeoutSeconds?: number;
  /** The time limit of the freezer, 10 s by default. */
  pauseTimeoutSeconds?: number;
  logger: DriverLogger;
  /** Called with the duration of each step of a create or resume. */
  onTrace?: (trace: CreateTrace) => void;
}

/** Milliseconds from the call to each step, in order. */
export interface CreateTrace {
  sandboxId: SandboxId;
  from: 'pool' | 'cold' | 'thaw' | 'existing';
  steps: Record<string, number>;
}
