import { z } from 'zod';
import { optionalQuery } from './fields.ts';

/** The value for all accounts. */
export const everyAccount = 'all';

/** Query parameter of lists that admins may request for other accounts. Spread it into the route's query schema. */
export const accountQuery = {
  account_id: optionalQuery(z.string().max(64)).describe(
    `Another account, for admins only; \`${everyAccount}\` means all accounts`,
  ),
};
