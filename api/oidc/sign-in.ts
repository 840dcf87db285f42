import { isAddressOfIdentities, signInByIdentity, useSignInState } from '../../db/repositories/identity-sign-ins.ts';
import { admitAddress, forgiveAddress } from '../../db/repositories/sign-ins.ts';
import { clientKey } from '../../domain/client-address.ts';
import { AppError } from '../../domain/errors.ts';
import type { ApiDependencies } from '../dependencies.ts';
import { type AccessToken, requireNoWait } from '../sign-in.ts';
import type { IdentityProvider, SignInChecks } from './identity-provider.ts';
import { notPending, pendingSeconds } from './pending-sign-ins.ts';

interface Callback {
  /** The query of the address that the provider sent the person to. */
  query: string;
  /** The sign-in that this browser began. */
  checks: SignInChecks;
  /** The client's address. */
  address: string;
  requestId: string;
  /** For the audit log. */
  action: string;
}

/**
 * Signs in the person who comes back from an identity provider. An attempt counts as a failed one of its address until
 * it has succeeded, unless users of this provider come from there.
 * @throws {AppError} `sign_in_not_pending`, `too_many_sign_ins`, and those of `IdentityProvider.finish` and
 *   `signInByIdentity`
 */
export async function signInThroughProvider(
  deps: ApiDependencies,
  provider: IdentityProvider,
  callback: Callback,
): Promise<AccessToken> {
  const { em } = deps.orm;
  const address = clientKey(callback.address);
  if (!(await useSignInState(em, callback.checks.state, pendingSeconds))) throw notPending();
  const { account_id: accountId, domains: emailDomains, create_users: createsUsers } = provider.issuer;
  const isKnown = await isAddressOfIdentities(em, accountId, address);
  if (!isKnown) requireNoWait(await admitAddress(em, address), '');
  const identity = await provider.finish(callback.query, callback.checks).catch(async (error) => {
    // An outage is not the person's fault.
    const isOutage = error instanceof AppError && error.code === 'identity_provider_unavailable';
    if (isOutage && !isKnown) await forgiveAddress(em, address);
    throw error;
  });
  const { userId, session } = await signInByIdentity(
    em,
    identity,
    { accountId, emailDomains, createsUsers },
    { ...callback, clientKey: address, isCounted: !isKnown },
  );
  return { accessToken: await deps.accessTokens.make(session, userId), expiresAt: session.expiresAt };
}
