import { mkdirSync, statfsSync } from 'node:fs';
import path from 'node:path';
import type { OwnService } from '../config/own-services.ts';
import type { Settings } from '../config/settings.ts';
import type { HostDriver } from './host-driver.ts';
import { defaultImageLimits } from './images/image-store.ts';
import { createOciDriver } from './oci/driver.ts';
import type { OciDriverOptions } from './oci/options.ts';

/** Facts that a host worker finds out beyond the settings. */
export interface HostServices {
  /** TCP ports, on the host's address that sandboxes see, that all of them may reach. */
  hostServicePorts: number[];
  /** Servers in private networks, or on the host, that sandboxes with internet access may reach. */
  openServers: { address: string; port: number }[];
  /** The present addresses of the platform's own services: neither object storage nor sandboxes reach them. */
  ownServices: () => Promise<OwnService[]>;
  logger: OciDriverOptions['logger'];
}

const root = path.resolve(import.meta.dirname, '..');

/**
 * Chooses where the sandboxes of a host run: the only place that knows the drivers. Today there is one, for this
 * machine.
 */
export function createHostDriver(settings: Settings, services: HostServices): Promise<HostDriver> {
  return createOciDriver({
    dataDir: settings.PLATFORM_DATA_DIR,
    cacheDir: settings.PLATFORM_CACHE_DIR,
    agentDir: path.join(root, 'agent/dist'),
    runtime: settings.PLATFORM_OCI_RUNTIME,
    subnet: settings.PLATFORM_SANDBOX_SUBNET,
    dns: settings.PLATFORM_SANDBOX_DNS?.split(',').map((address) => address.trim()),
    udpPorts: settings.PLATFORM_UDP_PORTS,
    bandwidthMbps: settings.PLATFORM_SANDBOX_BANDWIDTH_MBPS || undefined,
    routedNetworks: settings.PLATFORM_ROUTED_NETWORKS,
    outboundRanges: settings.PLATFORM_OUTBOUND_RANGES,
    warmPoolSize: settings.PLATFORM_WARM_POOL_SIZE,
    warmPoolMaxSize: settings.PLATFORM_WARM_POOL_MAX_SIZE,
    warmPoolMemoryMb: settings.PLATFORM_WARM_POOL_MEMORY_MB || undefined,
    baseImage: settings.PLATFORM_BASE_IMAGE,
    codeInterpreterRecipe: path.join(root, 'runtime/images/code-interpreter'),
    imageCacheBytes: imageCacheBytes(settings),
    imageLimits: { ...defaultImageLimits, maxBytes: settings.PLATFORM_IMAGE_MAX_GB * 1024 ** 3 },
    registryInsecureHttp: settings.PLATFORM_REGISTRY_INSECURE_HTTP,
    ...(settings.PLATFORM_REGISTRY && {
      registry: {
        address: settings.PLATFORM_REGISTRY.split('/', 1)[0]!,
        insecureHttp: settings.PLATFORM_REGISTRY_INSECURE_HTTP,
        username: settings.PLATFORM_REGISTRY_USERNAME ?? null,
        passwordFile: settings.PLATFORM_REGISTRY_PASSWORD_FILE ?? null,
        caFile: settings.PLATFORM_REGISTRY_CA_FILE ?? null,
      },
    }),
    ...services,
    onTrace: (trace) => services.logger.debug(trace, 'sandbox started'),
  });
}

/** A fifth of the file system, unless the settings say how much. */
function imageCacheBytes({ PLATFORM_IMAGE_CACHE_GB: gb, PLATFORM_CACHE_DIR: folder }: Settings): number {
  if (gb > 0) return gb * 1024 ** 3;
  mkdirSync(folder, { recursive: true });
  const { blocks, bsize } = statfsSync(folder);
  return Math.floor((blocks * bsize) / 5);
}
