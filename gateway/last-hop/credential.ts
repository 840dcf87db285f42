import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { findIssued, requestCertificate } from '../../db/hosts/last-hop-certificates.ts';
import type { Orm } from '../../db/orm.ts';
import type { LastHopIdentity } from '../../domain/hosts/last-hop.ts';
import { computeProof, type JoinToken, readJoinToken } from './join-token.ts';
import type { IssuedCertificate } from './request.ts';

const answerTimeoutMs = 20_000;
const pollMs = 100;
const firstRetryMs = 500;
const maxRetryMs = 15_000;

/** A key that was never on a disk, and its certificate. */
export interface Credential extends IssuedCertificate {
  key: string;
}

/**
 * This process's certificate of the last hop. The process makes its key pair, requests a certificate from the control
 * plane, and requests a new one, with a new key, after half of its lifetime.
 */
export class OwnCredential {
  readonly identity: LastHopIdentity;
  readonly #token: JoinToken;
  readonly #orm: Orm;
  readonly #logger: Logger;
  readonly #stopping = new AbortController();
  readonly #listeners: ((credential: Credential) => void)[] = [];
  #current: Credential | null = null;
  #running: Promise<void> | null = null;

  private constructor(token: JoinToken, deps: { orm: Orm; logger: Logger }) {
    this.identity = { role: token.role, name: token.name };
    this.#token = token;
    this.#orm = deps.orm;
    this.#logger = deps.logger;
  }

  /** @throws {Error} when the file is unreadable or contains no token of this role */
  static async of(
    tokenFile: string,
    role: LastHopIdentity['role'],
    deps: { orm: Orm; logger: Logger },
  ): Promise<OwnCredential> {
    const token = readJoinToken(await readFile(tokenFile, 'utf8'));
    if (token.role !== role) throw new Error(`${tokenFile} holds a join token of a ${token.role}, not of a ${role}`);
    return new OwnCredential(token, deps);
  }

  /** Null: there is none yet, or it has expired. */
  get current(): Credential | null {
    return this.#current && this.#current.expiresAt.getTime() > Date.now() ? this.#current : null;
  }

  /** Calls back with each new credential. */
  onNewer(listener: (credential: Credential) => void): void {
    this.#listeners.push(listener);
  }

  /** Requests certificates from now on. Returns at once. */
  start(): void {
    this.#running ??= this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    for (let failures = 0; !signal.aborted; ) {
      let waitMs: number;
      try {
        const credential = await this.#ask();
        this.#current = credential;
        for (const listener of this.#listeners) listener(credential);
        failures = 0;
        waitMs = (credential.expiresAt.getTime() - Date.now()) / 2;
      } catch (error) {
        if (signal.aborted) return;
        this.#logger.warn(
          { err: error, ...this.identity },
          'no certificate for connections between machines could be obtained yet',
        );
        waitMs = Math.min(firstRetryMs * 2 ** failures++, maxRetryMs);
      }
      await delay(Math.max(waitMs, pollMs), undefined, { signal }).catch(() => undefined);
    }
  }

  async #ask(): Promise<Credential> {
    const { em } = this.#orm;
    // Loaded on demand, because the X.509 library loads slowly.
    const { checkIssued, makeKeyAndRequest } = await import('./request.ts');
    const { key, request } = await makeKeyAndRequest();
    const proof = computeProof(this.#token.key, request);
    const certificateId = await requestCertificate(em, { ...this.identity, request, proof });
    const givenUpMs = performance.now() + answerTimeoutMs;
    for (;;) {
      const answer = await findIssued(em, certificateId);
      if (answer && 'refusal' in answer) throw new Error(`the control plane refuses it: ${answer.refusal}`);
      if (answer) return { key, ...checkIssued(answer.certificate, key, this.#token) };
      if (performance.now() > givenUpMs) throw new Error('no control worker answers requests for certificates');
      await delay(pollMs, undefined, { signal: this.#stopping.signal });
    }
  }
}
