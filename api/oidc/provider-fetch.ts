import type { CustomFetchOptions } from 'openid-client';
import { boundedFetch, UnusableReplyError } from '../../platform/config/bounded-fetch.ts';

/** Discovery documents, key sets, tokens and claims take a few KiB. */
const maxReplyBytes = 256 * 1024;

/** The identity provider is unreachable, or its reply is unusable. */
export class ProviderUnreachable extends Error {
  override name = 'ProviderUnreachable';
}

/** `fetch` for calls to an identity provider. @throws {ProviderUnreachable} */
export function providerFetch(timeoutMs: number) {
  const bounded = boundedFetch({ timeoutMs, maxReplyBytes });
  return async (url: string, options: CustomFetchOptions): Promise<Response> => {
    try {
      const reply = await bounded(url, options as RequestInit);
      if (reply.status >= 500) throw new ProviderUnreachable(`it answered ${reply.status}`);
      return reply;
    } catch (error) {
      if (error instanceof UnusableReplyError) throw new ProviderUnreachable(error.message);
      throw error;
    }
  };
}
