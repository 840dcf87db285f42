import { z } from 'zod';
import { Account } from '../../db/accounts/account.entity.ts';
import { e2bPrefix } from '../../domain/e2b-address.ts';
import { anyUser, requireCaller } from '../access.ts';
import type { Api, ApiDependencies } from '../dependencies.ts';

const team = z.object({ teamID: z.string(), name: z.string(), apiKey: z.string(), isDefault: z.boolean() });

/** `GET /teams`: the account of the caller is its only team. */
export function listE2bTeams(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: `${e2bPrefix}/teams`,
    config: { access: anyUser('account') },
    schema: { hide: true, response: { 200: z.array(team) } },
    handler: async (request) => {
      const { accountId } = requireCaller(request);
      const account = await deps.orm.em.fork().findOneOrFail(Account, { accountId });
      // The platform does not have the text of a key.
      return [{ teamID: accountId, name: account.displayName, apiKey: '', isDefault: true }];
    },
  });
}
