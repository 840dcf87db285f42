import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Orm } from '../db/orm.ts';
import type { Settings } from '../platform/config/settings.ts';
import { OwnCredential } from './last-hop/credential.ts';
import { HostPlaces } from './last-hop/host-places.ts';
import { Revocations } from './last-hop/revocations.ts';
import { LastHopServer } from './last-hop/server.ts';
import { showTunnels } from './last-hop-metrics.ts';
import type { RouteTable } from './routes.ts';

const defaultDrainMs = 10_000;

/** The part of the gateway that accepts connections from other machines for sandboxes of this machine. */
export interface LastHopEnd {
  /** When its certificate expires. Null: it has none. */
  expiresAt(): Date | null;
  close(drainMs?: number): Promise<void>;
}

/**
 * Null: the settings have no address for it. @throws {Error} when it cannot listen, or the token is not one of a host
 */
export async function openLastHopEnd(
  settings: Settings,
  { registry, ...deps }: { orm: Orm; routes: RouteTable; registry: Registry; logger: Logger },
): Promise<LastHopEnd | null> {
  const { PLATFORM_LAST_HOP_ADDRESS: address, PLATFORM_LAST_HOP_HOST_TOKEN_FILE: tokenFile } = settings;
  if (!address || !tokenFile) return null;
  const credential = await OwnCredential.of(tokenFile, 'host', deps);
  const revocations = new Revocations(deps);
  const server = new LastHopServer({ ...deps, credential, revocations, hosts: HostPlaces.of(deps.orm) });
  showTunnels(registry, () => server.counts());
  await server.listen(Number(address.slice(address.lastIndexOf(':') + 1)));
  credential.start();
  revocations.start();
  return {
    expiresAt: () => credential.current?.expiresAt ?? null,
    async close(drainMs = defaultDrainMs) {
      await server.close(drainMs);
      await Promise.all([credential.stop(), revocations.stop()]);
    },
  };
}
