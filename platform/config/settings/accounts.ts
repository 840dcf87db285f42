import { z } from 'zod';
import { oidcIssuers } from '../oidc-issuers.ts';
import { emptyIsUnset, textOr } from './field-types.ts';

/** The first account, mails, the console, and identity providers. */
export const accountSettings = {
  /** First start only: the root admin's e-mail and plan. */
  PLATFORM_ROOT_EMAIL: textOr('root@platform.localhost'),
  PLATFORM_ROOT_PLAN: textOr('enterprise'),
  /**
   * `smtp://user:password@host:port`, or `smtps://…`; parameters as `?requireTLS=true`. Secret. Empty: mails are kept as
   * files in the data folder.
   */
  SMTP_URL: z.preprocess(emptyIsUnset, z.url({ protocol: /^smtps?$/ }).optional()),
  /** The sender of mails: an address, or `Name <address>`. */
  PLATFORM_MAIL_FROM: textOr('Sandbox platform <no-reply@platform.localhost>').refine(
    (sender) => /^([^<>\r\n]+<[^<>@\s]+@[^<>@\s]+>|[^<>@\s]+@[^<>@\s]+)$/.test(sender),
    'must be an address, or Name <address>',
  ),
  /**
   * The URL of the operator's own console. Links in mails point there instead of at `/console` of the API, with the paths
   * `sign-in`, `reset-password`, `forgot-password` and `confirm-email-change`. Empty: the platform's own console.
   */
  PLATFORM_CONSOLE_URL: z.preprocess(emptyIsUnset, z.url({ protocol: /^https?$/ }).optional()),
  /**
   * Identity providers (OpenID Connect) that users of accounts sign in through: a JSON list of `id`, `issuer`,
   * `client_id`, `client_secret_file`, `label`, `account_id`, `domains`, `create_users`; see `platform/config/oidc-issuers.ts`.
   * Empty: users sign in with passwords only.
   */
  PLATFORM_OIDC_ISSUERS: z.preprocess(emptyIsUnset, oidcIssuers),
};
