import type { Logger } from 'pino';
import { notFound } from '../../../../domain/errors.ts';
import { readClientSecret } from '../../../../platform/config/oidc-issuers.ts';
import { apiUrl } from '../../../../platform/config/public-urls.ts';
import type { Settings } from '../../../../platform/config/settings.ts';
import { IdentityProvider } from './identity-provider.ts';

/** The identity providers of the settings. */
export class IdentityProviders {
  readonly #providers: ReadonlyMap<string, IdentityProvider>;

  /**
   * @param options.timeoutMs the time limit of one call to a provider
   * @throws {Error} when a client's secret is unreadable
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

  /** The identity providers, each with the text of its button and the path that the button leads to. */
  get all(): { id: string; label: string; startPath: string }[] {
    return [...this.#providers.values()].map(({ issuer: { id, label } }) => ({
      id,
      label,
      startPath: `${oidcPath}/${id}/start`,
    }));
  }

  /** @throws {AppError} `not_found` */
  get(id: string): IdentityProvider {
    const provider = this.#providers.get(id);
    if (!provider) throw notFound('Identity provider');
    return provider;
  }
}

/** The path of the routes of all issuers. */
export const oidcPath = '/v1/auth/oidc';
