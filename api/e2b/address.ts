import type { IncomingMessage } from 'node:http';
import { e2bPrefix } from '../../domain/e2b-address.ts';
import { apiUrl } from '../../platform/config/public-urls.ts';
import type { Settings } from '../../platform/config/settings.ts';

/** Whether a path, with or without a query, belongs to this face of the API. */
export function isE2bAddress(url: string): boolean {
  return url === e2bPrefix || url.startsWith(`${e2bPrefix}/`) || url.startsWith(`${e2bPrefix}?`);
}

/**
 * SDKs of E2B that know only a domain send their requests to `api.<domain>`. Under that host, every path is one of
 * E2B's, and no other route can be reached. If the operator has given the API itself that name, its own paths keep
 * their meaning.
 */
export function createUrlRewriter(settings: Settings): (request: IncomingMessage) => string {
  const host = `api.${settings.PLATFORM_BASE_DOMAIN}`.toLowerCase();
  if (new URL(apiUrl(settings)).hostname === host) return ({ url }) => url ?? '/';
  return ({ url = '/', headers }) => {
    const [asked] = (headers.host ?? '').toLowerCase().split(':', 1);
    return asked === host && url.startsWith('/') ? e2bPrefix + url : url;
  };
}
