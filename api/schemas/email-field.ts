import { readEmailAddress } from '../../domain/accounts/email-address.ts';
import { AppError } from '../../domain/errors.ts';
import type { AccountId } from '../../domain/ids.ts';
import { isDomainOfOthers } from '../../platform/config/oidc-issuers.ts';
import type { Settings } from '../../platform/config/settings.ts';

/** Reads an e-mail address of a request's body. @throws {AppError} `validation_failed` */
export function readEmailField(field: string, text: string): string {
  const email = readEmailAddress(text);
  if (email !== null) return email;
  const reason = 'must be an e-mail address with ASCII characters before the @';
  throw new AppError('validation_failed', `${field} ${reason}`, { details: [{ path: field, reason }] });
}

/**
 * Refuses an address of a domain that belongs to the identity provider of another account.
 * @throws {AppError} `email_domain_not_allowed`
 */
export function requireOwnDomain(settings: Settings, accountId: AccountId, email: string): void {
  if (!isDomainOfOthers(settings.PLATFORM_OIDC_ISSUERS, accountId, email)) return;
  throw new AppError('email_domain_not_allowed', 'E-mail addresses of this domain belong to another account');
}
