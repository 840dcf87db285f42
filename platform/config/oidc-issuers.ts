import fs from 'node:fs';
import { z } from 'zod';
import { type AccountId, isId } from '../../domain/ids.ts';

const isLoopback = (host: string) => /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(host);

const issuerUrl = z.url().refine((text) => {
  const { protocol, hostname, search, hash, username } = new URL(text);
  const isSafe = protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname));
  return isSafe && search === '' && hash === '' && username === '';
}, 'must be an https URL without a query (http on loopback)');

const hostName = /^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** The form in which addresses are stored: lower case, in ASCII. */
const emailDomain = z.string().transform((domain, context) => {
  const isHost = !/[\s/\\?#:@%[\]]/.test(domain) && URL.canParse(`http://${domain}`);
  const host = isHost ? new URL(`http://${domain}`).hostname : '';
  if (hostName.test(host)) return host;
  context.addIssue('must be the domain of e-mail addresses');
  return z.NEVER;
});

const oidcIssuer = z.strictObject({
  /** The issuer's name in the addresses of its routes. */
  id: z.string().regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'must have 1 to 32 lower-case letters, digits or -'),
  issuer: issuerUrl,
  client_id: z.string().min(1).max(255),
  /** The file with the client's secret. Absent: the client is public, and only PKCE protects the code. */
  client_secret_file: z.string().min(1).optional(),
  /** Text of the button on the sign-in page. */
  label: z.string().regex(/^(?=.*\S)[^\p{C}\p{Zl}\p{Zp}]{1,64}$/u, 'must have 1 to 64 printable characters'),
  /** The account whose users sign in here. */
  account_id: z.string().refine((text) => isId('account', text), 'must be the id of an account'),
  /** Domains of e-mail addresses that this issuer may vouch for. Their subdomains are not included. */
  domains: z.array(emailDomain).min(1).max(100),
  /** Create a user for every person with such an address. Otherwise only invited users may sign in. */
  create_users: z.boolean().default(false),
});

/** An identity provider whose users may sign in to one account. */
export type OidcIssuer = z.output<typeof oidcIssuer>;

/** A JSON list of issuers. Error messages contain the field's name, never its value. */
export const oidcIssuers = z
  .string()
  .default('[]')
  .transform((text, context): unknown => {
    try {
      return JSON.parse(text);
    } catch {
      context.addIssue('must be a JSON list');
      return z.NEVER;
    }
  })
  .pipe(
    z
      .array(oidcIssuer)
      .max(100)
      .refine((issuers) => new Set(issuers.map(({ id }) => id)).size === issuers.length, 'has an id twice'),
  );

/**
 * The secret of a client.
 * @returns null for a public client
 * @throws {Error} when the file is unreadable or empty; the message only contains the file's name
 */
export function readClientSecret({ id, client_secret_file: file }: OidcIssuer): string | null {
  if (file === undefined) return null;
  const secret = fs.readFileSync(file, 'utf8').trim();
  if (secret === '') throw new Error(`PLATFORM_OIDC_ISSUERS: the secret file of ${id} is empty: ${file}`);
  return secret;
}

/** Whether the domain of an e-mail address is configured only for identity providers of other accounts. */
export function isDomainOfOthers(issuers: readonly OidcIssuer[], accountId: AccountId, email: string): boolean {
  const domain = email.split('@')[1]!;
  const ofDomain = issuers.filter((issuer) => issuer.domains.includes(domain));
  return ofDomain.length > 0 && ofDomain.every((issuer) => issuer.account_id !== accountId);
}

/** Whether a user of an account with this e-mail can sign in through one of the issuers. */
export function isIssuerFor(issuers: readonly OidcIssuer[], accountId: AccountId, email: string): boolean {
  const domain = email.split('@')[1]!;
  return issuers.some((issuer) => issuer.account_id === accountId && issuer.domains.includes(domain));
}
