import type { PlatformSecrets } from '../config/secrets.ts';
import type { Orm } from '../db/orm.ts';
import { findEverKnownRoute } from '../db/repositories/sandbox-routes.ts';
import type { RouteSource } from './routes.ts';

/** Where the agent listens when the row does not say (agent/BOOT.md). */
const defaultAgentPort = 49983;

/**
 * Routes from the platform's database, of deleted sandboxes too: they answer 502, not 404. Access tokens are derived,
 * never stored.
 */
export function createSandboxRouteSource(orm: Orm, secrets: PlatformSecrets): RouteSource {
  return {
    find: async (sandboxId) => {
      const known = await findEverKnownRoute(orm.em, sandboxId);
      if (!known) return null;
      const { isDeleted: _, ...row } = known;
      return { ...row, agentPort: row.agentPort ?? defaultAgentPort, accessToken: secrets.agentToken(sandboxId) };
    },
  };
}
