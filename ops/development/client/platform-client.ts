import { setTimeout as delay } from 'node:timers/promises';
import type { SandboxId } from '../../../domain/ids.ts';

export interface ApiReply<Data> {
  status: number;
  headers: Headers;
  body: { success: boolean; data: Data; message?: string; error?: string; code?: string };
}

/** The fields of a sandbox in the API that scripts need. */
export interface SandboxView {
  sandbox_id: SandboxId;
  status: string;
  substatus: string | null;
  reason: string | null;
  sandbox_domain: string;
  envd_access_token: string;
  [field: string]: unknown;
}

/**
 * The control plane's HTTP API with one key, for scripts, benches and end-to-end tests. The contract is
 * `/openapi.json`.
 */
export class PlatformClient {
  readonly #url: string;
  readonly #apiKey: string | null;

  constructor(url: string, apiKey: string | null) {
    this.#url = url;
    this.#apiKey = apiKey;
  }

  async request<Data = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<ApiReply<Data>> {
    const response = await fetch(`${this.#url}${path}`, {
      method,
      headers: {
        ...(this.#apiKey ? { 'X-API-Key': this.#apiKey } : {}),
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text ? JSON.parse(text) : {} };
  }

  /** @throws {Error} with the error's text when it was not created */
  async createSandbox(wanted: Record<string, unknown> = {}): Promise<SandboxView> {
    const { status, body } = await this.request<SandboxView>('POST', '/v1/sandboxes', wanted);
    if (status !== 201) throw new Error(`create: ${status} ${body.code}: ${body.error}`);
    return body.data;
  }

  async sandbox(sandboxId: SandboxId): Promise<SandboxView> {
    return (await this.request<SandboxView>('GET', `/v1/sandboxes/${sandboxId}`)).body.data;
  }

  /** Waits until the sandbox has this status. @throws {Error} when it does not within the time limit */
  async untilStatus(sandboxId: SandboxId, status: string, timeoutMs = 60_000): Promise<SandboxView> {
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      const sandbox = await this.sandbox(sandboxId);
      if (sandbox?.status === status) return sandbox;
      if (Date.now() > deadline) {
        throw new Error(
          `${sandboxId} is ${sandbox?.status} (${sandbox?.reason}), not ${status}, after ${timeoutMs} ms`,
        );
      }
      await delay(50);
    }
  }

  /** Deletes a sandbox and waits until its data is gone. */
  async deleteSandbox(sandboxId: SandboxId, timeoutMs = 60_000): Promise<void> {
    await this.request('DELETE', `/v1/sandboxes/${sandboxId}`);
    const deadline = Date.now() + timeoutMs;
    while ((await this.request('GET', `/v1/sandboxes/${sandboxId}`)).status !== 404) {
      if (Date.now() > deadline) throw new Error(`${sandboxId} still answers ${timeoutMs} ms after its deletion`);
      await delay(50);
    }
  }
}
