import { z } from 'zod';
import { optionalQuery } from './fields.ts';

/** Names every account, in place of one. */
export const everyAccount = 'all';

/** Query parameter of lists that admins may ask of other accounts; spread into the route's query schema. */
export const accountQuery = {
  account_id: optionalQuery(z.string().max(64)).describe(
    `Of an account that is not yours: admins only; \`${everyAccount}\` is every account`,
  ),
};
