import type { ApiClient } from './api-client.ts';
import type { ApiKey, CreatedApiKey, ListApiKeysQuery } from './generated/api.ts';
import { allPages } from './pages.ts';
import type { RequestOptions } from './request-options.ts';

/** The API keys of the caller. */
export class ApiKeys {
  readonly #api: ApiClient;

  constructor(api: ApiClient) {
    this.#api = api;
  }

  /** The keys, newest first, without their secrets. */
  list({ status, ...options }: RequestOptions & { status?: 'active' | 'inactive' } = {}): AsyncGenerator<ApiKey, void> {
    const filter: ListApiKeysQuery = status === undefined ? {} : { status };
    return allPages(async (page) => {
      const { api_keys, pagination } = await this.#api.call('listApiKeys', {
        query: { ...filter, ...page },
        ...options,
      });
      return { items: api_keys, pagination };
    });
  }

  /** Makes a key. Only this reply has the secret, in `api_key`. @param name unique among the keys of the user */
  create(
    name: string,
    { description, ...options }: RequestOptions & { description?: string } = {},
  ): Promise<CreatedApiKey> {
    return this.#api.call('createApiKey', { body: { name, description: description ?? null }, ...options });
  }

  /** Disables a key, or enables it again. A disabled key is refused at once. */
  async setActive(keyId: string, isActive: boolean, options: RequestOptions = {}): Promise<void> {
    await this.#api.call('setApiKeyStatus', { path: { key_id: keyId }, body: { is_active: isActive }, ...options });
  }

  async delete(keyId: string, options: RequestOptions = {}): Promise<void> {
    await this.#api.call('deleteApiKey', { path: { key_id: keyId }, ...options });
  }
}
