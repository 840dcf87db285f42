import type { Settings } from './settings.ts';

type UrlSettings = Pick<Settings, 'PLATFORM_URL' | 'PLATFORM_API_HOST' | 'PLATFORM_API_PORT' | 'PLATFORM_CONSOLE_URL'>;

/** Pages for people, under `/account` of the API or under the operator's own console. */
export type AccountPage = 'sign-in' | 'reset-password' | 'forgot-password' | 'confirm-email-change';

/** The base URL at which clients reach the API. */
export function apiUrl(settings: UrlSettings): string {
  return settings.PLATFORM_URL?.replace(/\/+$/, '') || ownUrl(settings);
}

/**
 * The base URL at which the gateway reaches the API: as its clients, unless they reach it through the gateway itself, at
 * `api.<base domain>`.
 */
export function innerApiUrl(settings: UrlSettings & Pick<Settings, 'PLATFORM_BASE_DOMAIN'>): string {
  const url = apiUrl(settings);
  const isOfGateway = new URL(url).hostname === `api.${settings.PLATFORM_BASE_DOMAIN.toLowerCase()}`;
  return isOfGateway ? ownUrl(settings) : url;
}

/** The API's own address. */
function ownUrl(settings: Pick<Settings, 'PLATFORM_API_HOST' | 'PLATFORM_API_PORT'>): string {
  const host = settings.PLATFORM_API_HOST.includes(':')
    ? `[${settings.PLATFORM_API_HOST}]`
    : settings.PLATFORM_API_HOST;
  return `http://${host}:${settings.PLATFORM_API_PORT}`;
}

/** The URL of a page, for mails. */
export function accountPageUrl(settings: UrlSettings, page: AccountPage, query: Record<string, string> = {}): string {
  const base = settings.PLATFORM_CONSOLE_URL?.replace(/\/+$/, '') ?? `${apiUrl(settings)}/account`;
  const parameters = new URLSearchParams(query).toString();
  return `${base}/${page}${parameters === '' ? '' : `?${parameters}`}`;
}
