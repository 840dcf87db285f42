import { readFileSync } from 'node:fs';
import type { ImageReference } from '../../domain/templates/image-reference.ts';
import type { Settings } from '../../platform/config/settings.ts';
import { OutboundGuard } from './outbound-guard.ts';
import { RegistryClient, type RegistryCredentials } from './registry-client.ts';
import { discard, RegistryHttp } from './registry-http.ts';

/** Registries that users name. Every connection to them is checked. */
export class ExternalRegistries {
  readonly #http: RegistryHttp;

  /** @param sandboxNetworks the networks of all hosts, as CIDR */
  constructor(settings: Settings, sandboxNetworks: () => Promise<readonly string[]>) {
    const { PLATFORM_IMPORT_CA_FILE: caFile } = settings;
    this.#http = new RegistryHttp({
      guard: new OutboundGuard(settings, sandboxNetworks),
      ...(caFile && { ca: readFileSync(caFile, 'utf8') }),
    });
  }

  /** Uses TLS. A registry on loopback, which operators open for trials, may use plain HTTP, as with Docker. */
  async createClient(
    { registry, repository }: ImageReference,
    credentials: RegistryCredentials | null,
    signal: AbortSignal,
  ): Promise<RegistryClient> {
    const scheme = isLoopback(registry) && !(await this.#speaksTls(registry, signal)) ? 'http' : 'https';
    return new RegistryClient(this.#http, { origin: `${scheme}://${registry}`, path: repository }, credentials);
  }

  close(): void {
    this.#http.close();
  }

  async #speaksTls(registry: string, signal: AbortSignal): Promise<boolean> {
    try {
      const reply = await this.#http.send(new URL(`https://${registry}/v2/`), { method: 'GET', headers: {}, signal });
      discard(reply.body);
      return true;
    } catch (error) {
      signal.throwIfAborted();
      // OpenSSL gives one of these errors for a reply in plain HTTP.
      if (/wrong version number|EPROTO|packet length too long|http request/i.test(String(error))) return false;
      return true;
    }
  }
}

function isLoopback(registry: string): boolean {
  return /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(registry.replace(/:\d+$/, ''));
}
