import path from 'node:path';
import { cacheDir } from '../../setup/toolchain/locations.mjs';
import { choosePorts } from '../embedded/ports.ts';
import { databaseUrl, socketFolder } from '../embedded/postgres.ts';
import { sweepSocketIn } from '../embedded/registry.ts';
import { temporalInnerPorts } from '../embedded/temporal.ts';
import { loadLaunchSettings } from '../launch-settings.ts';
import { type DataFolder, derivePassword } from './data-folder.ts';
import { listenAddress, metricsPorts, usualPorts } from './listened-ports.mjs';

/** The addresses of all parts of a copy, and the resulting settings of the platform's processes. */
export interface Addresses {
  ports: Awaited<ReturnType<typeof choosePlatformPorts>>;
  /** Settings of `platform/config/settings/`: the operator's settings, completed with the embedded parts. */
  processEnv: NodeJS.ProcessEnv;
  /** The same with the owner of the database, only for the migration. */
  migrationEnv: NodeJS.ProcessEnv;
}

/**
 * Determines all addresses before anything is started, so that each part can know all others.
 * @throws {SettingsError | PortTakenError}
 */
export async function settleAddresses(folder: DataFolder, given: NodeJS.ProcessEnv): Promise<Addresses> {
  const ports = await choosePlatformPorts(folder.dir, given);
  const url = given.PLATFORM_URL || `http://${reachable(given.PLATFORM_API_HOST)}:${ports.PLATFORM_API_PORT}`;
  const postgresPort = ports.PLATFORM_POSTGRES_PORT;
  const socketDir = socketFolder(path.join(folder.dir, 'postgres'), postgresPort);
  const formatDatabaseUrl = (role: string, purpose: string) =>
    databaseUrl(role, derivePassword(folder.secretKey, purpose), postgresPort, 'platform', socketDir);
  const embedded: NodeJS.ProcessEnv = {
    ...(!given.DATABASE_URL && { DATABASE_URL: formatDatabaseUrl('platform_runtime', 'postgres platform runtime') }),
    ...(!given.TEMPORAL_ADDRESS && {
      TEMPORAL_ADDRESS: `127.0.0.1:${ports.PLATFORM_TEMPORAL_PORT}`,
      TEMPORAL_UI_URL: given.TEMPORAL_UI_URL || `http://127.0.0.1:${ports.PLATFORM_TEMPORAL_UI_PORT}`,
    }),
    ...(!given.PLATFORM_REGISTRY && {
      PLATFORM_REGISTRY: `127.0.0.1:${ports.PLATFORM_REGISTRY_PORT}`,
      PLATFORM_REGISTRY_INSECURE_HTTP: 'true',
      PLATFORM_REGISTRY_SWEEP_SOCKET: sweepSocketIn(path.join(folder.dir, 'registry')),
    }),
    // For user-supplied endpoints, such as storage, on this machine.
    PLATFORM_INTERNAL_SERVICES: [
      given.PLATFORM_INTERNAL_SERVICES,
      ...Object.values(ports).map((port) => `127.0.0.1:${port}`),
    ]
      .filter(Boolean)
      .join(','),
    PLATFORM_OUTBOUND_RANGES: given.PLATFORM_OUTBOUND_RANGES || '127.0.0.0/8,::1/128',
  };
  // The supervisor itself tells systemd that everything is ready.
  const { DATABASE_OWNER_URL: givenOwner, NOTIFY_SOCKET: _, ...others } = given;
  const ownerUrl = given.DATABASE_URL ? givenOwner : formatDatabaseUrl('platform', 'postgres platform');
  const processEnv: NodeJS.ProcessEnv = {
    // Node's compile cache, so that the next start need not compile again.
    NODE_COMPILE_CACHE: path.join(cacheDir(given), 'node-compile'),
    ...others,
    ...embedded,
    PLATFORM_DATA_DIR: folder.dir,
    PLATFORM_SECRET_KEY: folder.secretKey,
    PLATFORM_API_PORT: `${ports.PLATFORM_API_PORT}`,
    PLATFORM_GATEWAY_PORT: `${ports.PLATFORM_GATEWAY_PORT}`,
    ...Object.fromEntries(Object.values(metricsPorts).map((name) => [name, `${ports[name]}`])),
    PLATFORM_URL: url,
  };
  return { ports, processEnv, migrationEnv: { ...processEnv, ...(ownerUrl && { DATABASE_OWNER_URL: ownerUrl }) } };
}

/** The address to connect to, for an address to listen on. */
export function reachable(host: string | undefined): string {
  return !host || host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
}

function choosePlatformPorts(dataDir: string, given: NodeJS.ProcessEnv) {
  const { PLATFORM_PORTS_FROM: from, ...explicit } = loadLaunchSettings(given);
  const named = (Object.keys(usualPorts) as (keyof typeof usualPorts)[]).map((name, index) => ({
    name,
    preferred: from ? from + index : usualPorts[name],
    explicit: explicit[name],
    host: listenAddress(name, given),
  }));
  const inner = temporalInnerPorts.map((name, index) => ({
    name,
    preferred: from ? from + named.length + index : 7700 + index,
    explicit: undefined,
    host: '127.0.0.1',
  }));
  return choosePorts<(typeof named)[number]['name'] | (typeof inner)[number]['name']>(dataDir, [...named, ...inner]);
}
