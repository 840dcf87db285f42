import type { Settings } from './settings.ts';

type UrlSettings = Pick<Settings, 'PLATFORM_URL' | 'PLATFORM_API_HOST' | 'PLATFORM_API_PORT' | 'PLATFORM_CONSOLE_URL'>;

/** Pages of the console for people who are not signed in. */
export const accountPages = ['sign-in', 'reset-password', 'forgot-password', 'confirm-email-change'] as const;
export type AccountPage = (typeof accountPages)[number];

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

/** The base URL of the console: the operator's own, or the one that the API serves. */
export function consoleUrl(settings: UrlSettings): string {
  return settings.PLATFORM_CONSOLE_URL?.replace(/\/+$/, '') ?? `${apiUrl(settings)}/console`;
}

/** The URL of a page, for mails. */
export function accountPageUrl(settings: UrlSettings, page: AccountPage, query: Record<string, string> = {}): string {
  const parameters = new URLSearchParams(query).toString();
  return `${consoleUrl(settings)}/${page}${parameters === '' ? '' : `?${parameters}`}`;
}
