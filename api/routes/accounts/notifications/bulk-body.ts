import { z } from 'zod';
import { counted } from '../../../schemas/fields.ts';

/** The same limit as for a page of the list. */
const maxIds = 100;

/** The notifications that a bulk route works on. Ids of other users' or unknown notifications are ignored. */
export const bulkBody = z.object({
  notification_ids: counted(maxIds, 'ids', z.array(z.string().min(1).max(64)).min(1).max(maxIds)).describe(
    `1 to ${maxIds} ids`,
  ),
});
