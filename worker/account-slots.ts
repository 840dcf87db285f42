import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { AccountShares } from '../activities/account-shares.ts';
import type { AccountId } from '../domain/ids.ts';

/**
 * Limits the activity slots of a queue that one account may use. The account is the fairness key, which activities
 * inherit from their workflow. Workflows of the platform itself have none and no limit. Local activities use other
 * slots.
 * @param share the maximum number of concurrent activities of one account
 */
export function limitAccountSlots(share: number): ActivityInterceptorsFactory {
  const shares = new AccountShares(share);
  return ({ info, cancellationSignal }) => ({
    inbound: {
      execute(input, next) {
        const accountId = info.priority?.fairnessKey as AccountId | undefined;
        if (info.isLocal || !accountId) return next(input);
        return shares.run(accountId, cancellationSignal, () => next(input));
      },
    },
  });
}
