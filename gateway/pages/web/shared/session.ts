import { PageError } from './page-error.ts';
import { ask } from './replies.ts';

const longestWaitMs = 10_000;
/** Codes of states that may end by themselves, so that the page retries. */
const passingCodes = new Set([
  ...[
    'disconnected',
    'sandbox_not_running',
    'sandbox_unreachable',
    'sandbox_no_reply',
    'sandbox_busy',
    'temporarily_unavailable',
  ],
  ...['sandbox_bad_response', 'too_many_requests', 'owner_disabled', 'unavailable'],
]);

/** The session of this page. It exchanges the access token in the address for a cookie that no script can read. */
export class Session {
  readonly #path: string;
  #token: string | null;

  /** @param page the page's own path, such as `/terminal` */
  constructor(page: string) {
    this.#path = `${page}/session`;
    this.#token = new URLSearchParams(location.hash.slice(1)).get('token');
    // The link was opened again in this tab.
    addEventListener('hashchange', () => location.reload());
  }

  /**
   * Waits until the agent can be called, and calls `show` with each reason to wait.
   * @throws {PageError} for failures that waiting cannot resolve: no token, a wrong token, an expired session
   */
  async open(show: (error: PageError) => void): Promise<void> {
    for (let waitMs = 500; ; waitMs = Math.min(waitMs * 1.5, longestWaitMs)) {
      try {
        await this.#exchange();
        return;
      } catch (error) {
        if (!(error instanceof PageError) || !isPassing(error)) throw error;
        show(error);
      }
      await new Promise((resolve) => setTimeout(resolve, waitMs));
    }
  }

  async #exchange(): Promise<void> {
    const token = this.#token;
    if (token === null) {
      await ask(this.#path, { method: 'GET' });
      return;
    }
    await ask(this.#path, { method: 'POST', headers: { 'X-Access-Token': token } });
    this.#token = null;
    // Removes the token from the address, the history and copied addresses.
    history.replaceState(null, '', location.pathname);
  }
}

/** Whether the state may end by itself, so that the page continues. */
export function isPassing({ code }: PageError): boolean {
  return passingCodes.has(code);
}

/** The text about a failure for people. */
export function explain(error: PageError): string {
  switch (error.code) {
    case 'unauthenticated':
      return 'There is no session here, or it has expired. Open the page again by its link, which ends in #token=…';
    case 'sandbox_not_running':
      return 'The sandbox is paused or has ended. This page goes on when it runs again.';
    case 'owner_disabled':
      return 'The owner of the sandbox is disabled.';
    case 'disconnected':
      return 'The connection broke off. Trying again…';
    case 'sandbox_unreachable':
      return 'The agent in the sandbox does not answer. Trying again…';
    case 'cross_origin':
      return isSecureContext
        ? 'The browser does not say that this page itself is asking. A newer one does.'
        : 'Browsers keep the session on https and on localhost only. Open this page over https.';
    default:
      return error.message;
  }
}
