import type { Settings } from './settings.ts';

type UrlSettings = Pick<Settings, 'PLATFORM_URL' | 'PLATFORM_API_HOST' | 'PLATFORM_API_PORT' | 'PLATFORM_CONSOLE_URL'>;

/** Pages for people, under `/account` of the API or under the operator's own console. */
export type AccountPage = 'sign-in' | 'reset-password' | 'forgot-password' | 'confirm-email-change';

/** The base URL at which clients reach the API. */
export function apiUrl(settings: UrlSettings): string {
  if (settings.PLATFORM_URL) return settings.PLATFORM_URL.replace(/\/+$/, '');
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
