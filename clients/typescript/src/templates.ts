import { setTimeout as delay } from 'node:timers/promises';
import type { ApiClient } from './api-client.ts';
import { SandboxError } from './errors.ts';
import type { ImportJob, ImportTemplateBody, ListTemplatesQuery, Template, TemplateItem } from './generated/api.ts';
import { allPages } from './pages.ts';
import type { RequestOptions } from './request-options.ts';

export interface ImportOptions extends RequestOptions {
  description?: string;
  /** For a private registry. */
  username?: string;
  password?: string;
  cpuCount?: number;
  memoryMb?: number;
  /** Every other field of `POST /v1/templates/import`. */
  more?: Partial<ImportTemplateBody>;
  /** Called with the state of the import when it has changed. */
  onProgress?: (job: ImportJob) => void;
}

export interface FromSandboxOptions extends RequestOptions {
  description?: string;
}

export interface ListTemplatesOptions extends RequestOptions {
  visibility?: 'private' | 'account_shared' | 'public';
  /** Only those from which sandboxes can be made. */
  usable?: boolean;
}

const firstPauseMs = 200;
const maxPauseMs = 2000;

/** Templates: the images of sandboxes with their defaults. */
export class Templates {
  readonly #api: ApiClient;

  constructor(api: ApiClient) {
    this.#api = api;
  }

  /** The templates that the caller may see, newest first. */
  list({ visibility, usable, ...options }: ListTemplatesOptions = {}): AsyncGenerator<TemplateItem, void> {
    const filter: ListTemplatesQuery = { ...(visibility && { visibility }), ...(usable && { usable: 'true' }) };
    return allPages(async (page) => {
      const request = { query: { ...filter, ...page }, ...options };
      const { templates, pagination } = await this.#api.call('listTemplates', request);
      return { items: templates, pagination };
    });
  }

  /** @param template an id, or the name of a built-in template */
  get(template: string, options: RequestOptions = {}): Promise<Template> {
    return this.#api.call('getTemplate', { path: { template_id: template }, ...options });
  }

  /**
   * Makes a template from an image of a registry, and waits until the image is imported. An aborted `signal` ends the
   * waiting, and not the import.
   * @param image such as `docker.io/library/python:3.13`
   * @throws {SandboxError} `import_failed` with the reason
   */
  async import(name: string, image: string, options: ImportOptions = {}): Promise<Template> {
    const { description, username, password, cpuCount, memoryMb, more, onProgress, ...request } = options;
    const body = {
      ...{ name, external_image_url: image, description: description ?? null },
      ...{ external_registry_username: username ?? null, external_registry_password: password ?? null },
      ...{ default_cpu_count: cpuCount ?? null, default_memory_mb: memoryMb ?? null },
      ...more,
    };
    const made = await this.#api.call('importTemplate', { body, ...request });
    if (!('job_id' in made)) throw new SandboxError('import_failed', made.message);
    let told = '';
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, maxPauseMs)) {
      const job = await this.#api.call('getImportJob', { path: { job_id: made.job_id }, ...request });
      if (job.updated_at !== told) onProgress?.(job);
      told = job.updated_at;
      if (job.status === 'completed') return this.get(made.template_id, request);
      if (job.status === 'failed' || job.status === 'cancelled') {
        throw new SandboxError('import_failed', `The import of ${image}: ${job.error_message ?? job.status}`);
      }
      await pause(pauseMs, request.signal);
    }
  }

  /**
   * Makes a template from the disk of a sandbox, and waits until it can be used.
   * @throws {SandboxError} `template_failed` with the reason
   */
  async fromSandbox(sandboxId: string, name: string, options: FromSandboxOptions = {}): Promise<Template> {
    const { description, ...request } = options;
    const body = { name, description: description ?? null };
    const path = { sandbox_id: sandboxId };
    const { template_id } = await this.#api.call('createTemplateFromSandbox', { path, body, ...request });
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, maxPauseMs)) {
      const template = await this.get(template_id, request);
      if (template.status === 'available') return template;
      if (template.status === 'failed') {
        throw new SandboxError('template_failed', `The template ${name}: ${template.build_error_message ?? 'failed'}`);
      }
      await pause(pauseMs, request.signal);
    }
  }

  async delete(templateId: string, options: RequestOptions = {}): Promise<void> {
    await this.#api.call('deleteTemplate', { path: { template_id: templateId }, ...options });
  }
}

/** @throws the reason of the signal */
async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await delay(ms, undefined, signal && { signal }).catch(() => signal?.throwIfAborted());
}
