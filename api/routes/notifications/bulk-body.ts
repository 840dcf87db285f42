import { z } from 'zod';
import { counted } from '../../schemas/fields.ts';

/** At most as many as a page of the list has. */
const maxIds = 100;

/** The notifications that a bulk route works on. Ids that name no notification of the caller are passed over. */
export const bulkBody = z.object({
  notification_ids: counted(maxIds, 'ids', z.array(z.string().min(1).max(64)).min(1).max(maxIds)).describe(
    `1 to ${maxIds} ids`,
  ),
});
