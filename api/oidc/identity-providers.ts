import type { Logger } from 'pino';
import { readClientSecret } from '../../config/oidc-issuers.ts';
import { apiUrl } from '../../config/public-urls.ts';
import type { Settings } from '../../config/settings.ts';
import { notFound } from '../../domain/errors.ts';
import { IdentityProvider } from './identity-provider.ts';

/** The identity providers that people sign in through, as the settings name them. */
export class IdentityProviders {
  readonly #providers: ReadonlyMap<string, IdentityProvider>;

  /**
   * @param options.timeoutMs of one call to a provider
   * @throws {Error} when a client's secret cannot be read
   */
  constructor(settings: Settings, options: { logger: Logger; timeoutMs?: number }) {
    this.#providers = new Map(
      settings.PLATFORM_OIDC_ISSUERS.map((issuer) => {
        const redirectUri = `${apiUrl(settings)}${oidcPath}/${issuer.id}/callback`;
        const clientSecret = readClientSecret(issuer);
        return [issuer.id, new IdentityProvider({ issuer, clientSecret, redirectUri, ...options })];
      }),
    );
  }

  /** What the buttons of the sign-in page say, and where they lead. */
  get buttons(): { label: string; url: string }[] {
    return [...this.#providers.values()].map(({ issuer: { id, label } }) => ({
      label,
      url: `${oidcPath}/${id}/start`,
    }));
  }

  /** @throws {AppError} `not_found` */
  get(id: string): IdentityProvider {
    const provider = this.#providers.get(id);
    if (!provider) throw notFound('Identity provider');
    return provider;
  }
}

/** Where the routes of all issuers are. */
export const oidcPath = '/v1/auth/oidc';
