import { isAddressOfIdentities, signInByIdentity, useSignInState } from '../../db/accounts/identity-sign-ins.ts';
import { admitAddress, forgiveAddress } from '../../db/accounts/sign-ins.ts';
import { clientKey } from '../../domain/client-address.ts';
import { AppError } from '../../domain/errors.ts';
import type { ApiDependencies } from '../dependencies.ts';
import { type AccessToken, requireNoWait } from '../sign-in.ts';
import type { IdentityProvider, SignInChecks } from './identity-provider.ts';
import { notPending, pendingSeconds } from './pending-sign-ins.ts';

interface Callback {
  /** The query of the callback address to which the provider sent the person. */
  query: string;
  /** The pending sign-in of this browser. */
  checks: SignInChecks;
  /** The address of the client. */
  address: string;
  requestId: string;
  /** The action in the audit log. */
  action: string;
}

/**
 * Signs in a person who comes back from an identity provider. Until it has succeeded, the attempt counts as a failure
 * of its address, unless users of this provider have signed in from there.
 * @throws {AppError} `sign_in_not_pending`, `too_many_sign_ins`, and the errors of `IdentityProvider.finish` and
 * `signInByIdentity`
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
    // An outage of the provider is not a failed attempt of the person.
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
