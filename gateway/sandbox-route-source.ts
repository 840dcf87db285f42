import type { Orm } from '../db/orm.ts';
import { findEverKnownRoute } from '../db/sandboxes/sandbox-routes.ts';
import type { PlatformSecrets } from '../platform/config/secrets.ts';
import type { RouteSource } from './routes.ts';

/** The agent's port if the row has none (agent/BOOT.md). */
const defaultAgentPort = 49983;

/**
 * Routes from the platform's database, including those of deleted sandboxes, which get 502 and not 404. Access tokens
 * are derived and never stored.
 */
export function createSandboxRouteSource(orm: Orm, secrets: PlatformSecrets): RouteSource {
  return {
    find: async (sandboxId) => {
      const known = await findEverKnownRoute(orm.em, sandboxId);
      if (!known) return null;
      const { isDeleted: _, secretKeyNumber, ...row } = known;
      return {
        ...row,
        agentPort: row.agentPort ?? defaultAgentPort,
        accessToken: secrets.agentToken(sandboxId, secretKeyNumber),
        platformToken: secrets.platformToken(sandboxId, secretKeyNumber),
      };
    },
  };
}
