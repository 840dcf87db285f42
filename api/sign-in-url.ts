import { accountPageUrl } from '../config/public-urls.ts';
import type { Settings } from '../config/settings.ts';
import type { Api } from './dependencies.ts';

/** Where people sign in. Null: neither the operator nor this API has a page for it. */
export function signInUrl(api: Api, settings: Settings): string | null {
  const isServed = settings.PLATFORM_CONSOLE_URL || api.hasRoute({ method: 'GET', url: '/account/sign-in' });
  return isServed ? accountPageUrl(settings, 'sign-in') : null;
}
