import { fastifyCookie } from '@fastify/cookie';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../../../../domain/errors.ts';
import { open, seal } from '../../../../platform/config/sealed-box.ts';
import type { SignInChecks } from './identity-provider.ts';
import { oidcPath } from './identity-providers.ts';

/** A sign-in that a person has begun. */
export interface PendingSignIn {
  checks: SignInChecks;
  /** The path in the console to which the person returns. */
  returnTo: string;
}

/** The time limit of a sign-in, from its start to the person's return from the provider. */
export const pendingSeconds = 600;
/** The maximum number in one browser. Each tab may have one. */
const pendingAtMost = 5;
const prefix = 'oidc-sign-in-';
/** A state with another format is refused, because not every text is a valid cookie name. */
const ownName = /^oidc-sign-in-[\w-]{20,64}$/;

/**
 * Sign-ins that people have begun at a provider. The browser keeps each one in an encrypted cookie that only its own
 * callback can open. So a flood of starts costs the platform no memory, and another browser cannot finish the sign-in.
 */
export class PendingSignIns {
  readonly #keys: () => Buffer[];
  readonly #isSecure: boolean;

  /**
   * @param keys the first encrypts, all decrypt
   * @param isSecure true when clients reach the API by https
   */
  constructor(keys: () => Buffer[], isSecure: boolean) {
    this.#keys = keys;
    this.#isSecure = isSecure;
  }

  /** Stores a sign-in in the browser. If the browser already has too many, all earlier ones are deleted. */
  keep(request: FastifyRequest, reply: FastifyReply, issuerId: string, { checks, returnTo }: PendingSignIn): void {
    const names = Object.keys(parseCookies(request)).filter((name) => ownName.test(name));
    if (names.length >= pendingAtMost) for (const name of names.slice(0, 50)) this.#set(reply, name, '', 0);
    const sealed = seal(this.#keys()[0]!, formatPurpose(issuerId, checks.state), {
      ...checks,
      returnTo,
      expiresAt: expiry(),
    });
    this.#set(reply, prefix + checks.state, sealed, pendingSeconds);
  }

  /**
   * Returns the sign-in that this browser began with a state, and deletes it from the browser.
   * @throws {AppError} `sign_in_not_pending` when this browser began none with it, or too long ago
   */
  take(request: FastifyRequest, reply: FastifyReply, issuerId: string, state: string): PendingSignIn {
    const name = prefix + state;
    const sealed = ownName.test(name) ? parseCookies(request)[name] : undefined;
    if (sealed === undefined) throw notPending();
    this.#set(reply, name, '', 0);
    const pending = this.#open(sealed, formatPurpose(issuerId, state));
    if (!pending || pending.expiresAt < Date.now()) throw notPending();
    const { returnTo = '/', ...checks } = pending;
    return { checks, returnTo };
  }

  /** Cookies of the release before have no path to return to. */
  #open(sealed: string, purpose: string): (SignInChecks & { returnTo?: string; expiresAt: number }) | null {
    for (const key of this.#keys()) {
      try {
        return open(key, purpose, sealed);
      } catch {
        // Another key, or not one of ours.
      }
    }
    return null;
  }

  #set(reply: FastifyReply, name: string, value: string, maxAge: number): void {
    reply.header(
      'set-cookie',
      fastifyCookie.serialize(name, value, {
        path: oidcPath,
        httpOnly: true,
        sameSite: 'lax',
        secure: this.#isSecure,
        maxAge,
      }),
    );
  }
}

export const notPending = () =>
  new AppError(
    'sign_in_not_pending',
    'This sign-in was not begun in this browser, was already completed, or took too long; begin again',
  );

const expiry = () => Date.now() + pendingSeconds * 1000;
const formatPurpose = (issuerId: string, state: string) => `sign-in ${issuerId} ${state}`;
const parseCookies = ({ headers }: FastifyRequest) => fastifyCookie.parse(headers.cookie ?? '');
