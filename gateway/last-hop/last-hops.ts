import type { Logger } from 'pino';
import type { Orm } from '../../db/orm.ts';
import { OwnCredential } from './credential.ts';
import { HostPlaces } from './host-places.ts';
import { localHostId } from './local-host-id.ts';
import { Revocations } from './revocations.ts';
import type { TunnelPlace } from './tunnel.ts';

/** The sandbox's machine is unreachable now: this process has no certificate yet, or the host is revoked. */
export class LastHopUnavailable extends Error {
  override name = 'LastHopUnavailable';
}

/** Determines how this process reaches the sandboxes of a host. */
export interface HostTunnels {
  /**
   * Null: directly, because they are on this machine or their network is routed to it.
   * @throws {LastHopUnavailable}
   */
  tunnelTo(hostId: string): Promise<TunnelPlace | null>;
}

/** The tunnels of a gateway or an API with a join token. */
export class LastHops implements HostTunnels {
  readonly #credential: Pick<OwnCredential, 'current'>;
  readonly #places: HostPlaces;
  readonly #revocations: Pick<Revocations, 'isRevoked'>;
  readonly #localHostId: () => string | null;

  constructor(deps: {
    credential: Pick<OwnCredential, 'current'>;
    places: HostPlaces;
    revocations: Pick<Revocations, 'isRevoked'>;
    /** The id of the host on this machine. Null: this machine has none. */
    localHostId: () => string | null;
  }) {
    this.#credential = deps.credential;
    this.#places = deps.places;
    this.#revocations = deps.revocations;
    this.#localHostId = deps.localHostId;
  }

  async tunnelTo(hostId: string): Promise<TunnelPlace | null> {
    if (hostId === this.#localHostId()) return null;
    const address = (await this.#places.find(hostId))?.lastHopAddress;
    if (!address) return null;
    if (this.#revocations.isRevoked({ role: 'host', name: hostId })) {
      throw new LastHopUnavailable('the identity of the host is revoked, or it is not known yet whether it is');
    }
    const credential = this.#credential.current;
    if (!credential) throw new LastHopUnavailable('this process has no certificate for connections between machines');
    return { hostId, address, credential };
  }
}

/** The tunnels of a process, with the resources that they need. */
export interface OpenLastHops {
  /** When the process's certificate expires. Null: it has none. */
  expiresAt(): Date | null;
  tunnels: HostTunnels;
  stop(): Promise<void>;
}

/**
 * Null: the settings have no join token, and every sandbox is reached directly. @throws {Error} when the token is
 * invalid
 */
export async function openLastHops(
  settings: {
    PLATFORM_LAST_HOP_GATEWAY_TOKEN_FILE?: string | undefined;
    PLATFORM_HOST_ID?: string | undefined;
    PLATFORM_DATA_DIR: string;
  },
  deps: { orm: Orm; logger: Logger },
): Promise<OpenLastHops | null> {
  const tokenFile = settings.PLATFORM_LAST_HOP_GATEWAY_TOKEN_FILE;
  if (!tokenFile) return null;
  const credential = await OwnCredential.of(tokenFile, 'gateway', deps);
  const revocations = new Revocations(deps);
  credential.start();
  revocations.start();
  const places = HostPlaces.of(deps.orm);
  return {
    expiresAt: () => credential.current?.expiresAt ?? null,
    tunnels: new LastHops({ credential, places, revocations, localHostId: localHostId(settings) }),
    async stop() {
      await Promise.all([credential.stop(), revocations.stop()]);
    },
  };
}
