import { AgentClient } from './agent-client.ts';
import { ApiClient } from './api-client.ts';
import { type Execution, type RunCodeOptions, runCode } from './code.ts';
import { Commands } from './commands.ts';
import { type ConnectionOptions, readConnection } from './connection-options.ts';
import { SandboxError } from './errors.ts';
import { Files } from './files.ts';
import type {
  AddSandboxPortBody,
  CreatedSandbox,
  CreateSandboxBody,
  GetSandboxMetricsQuery,
  ListSandboxesQuery,
  Sandbox as SandboxInfo,
  SandboxMetrics,
  SandboxSummary,
} from './generated/api.ts';
import { Git } from './git.ts';
import { allPages } from './pages.ts';
import { Ports } from './ports.ts';
import { Pty } from './pty.ts';
import type { RequestOptions } from './request-options.ts';
import { publicUrl, resolveServer } from './sandbox-address.ts';

export interface CreateOptions extends ConnectionOptions {
  /** `base`, `code-interpreter`, or a template of your own. */
  template?: string;
  name?: string;
  /** Seconds until the sandbox ends, or pauses with `autoPause`. Default 300. */
  timeoutSeconds?: number;
  autoPause?: boolean;
  envs?: Record<string, string>;
  metadata?: Record<string, string>;
  cpuCount?: number;
  memoryMb?: number;
  storageGb?: number;
  /** False: the agent requires no token. */
  secure?: boolean;
  allowInternetAccess?: boolean;
  /** Ports that are open from the start. */
  ports?: AddSandboxPortBody[];
  /** Every other field of `POST /v1/sandboxes`. */
  more?: CreateSandboxBody;
  signal?: AbortSignal;
}

export interface MetricsOptions extends RequestOptions {
  start?: Date;
  end?: Date;
  stepSeconds?: number;
}

export interface ListOptions extends ConnectionOptions {
  status?: string;
  metadata?: Record<string, string>;
  search?: string;
  projectId?: string;
}

/** A sandbox of the platform. `await using` ends it at the end of the block. */
export class Sandbox implements AsyncDisposable {
  readonly id: string;
  /** The host name of the sandbox, with the gateway's port. */
  readonly domain: string;
  /** The token for the agent and the protected ports. */
  readonly accessToken: string;
  readonly commands: Commands;
  readonly files: Files;
  readonly pty: Pty;
  readonly ports: Ports;
  readonly git: Git;
  readonly #api: ApiClient;
  readonly #agent: AgentClient;

  private constructor(api: ApiClient, { sandbox_id, sandbox_domain, envd_access_token }: SandboxAddress) {
    this.#api = api;
    this.id = sandbox_id;
    this.domain = sandbox_domain;
    this.accessToken = envd_access_token;
    this.#agent = new AgentClient(resolveServer(this.domain, api.connection), this.accessToken, api.connection);
    this.files = new Files(this.#agent, this.accessToken, publicUrl(this.domain, api.connection));
    this.commands = new Commands(this.#agent);
    this.pty = new Pty(this.#agent);
    this.git = new Git(this.commands);
    this.ports = new Ports(api, { id: this.id, domain: this.domain, token: this.accessToken });
  }

  /**
   * Makes a sandbox and waits until it runs.
   * @throws {SandboxError} with the code of the refusal; `sandbox_failed` when it failed to start
   */
  static async create(options: CreateOptions = {}): Promise<Sandbox> {
    const api = new ApiClient(readConnection(options));
    const made: CreatedSandbox = await api.call('createSandbox', {
      body: createBody(options),
      signal: options.signal,
    });
    if (made.status !== 'failed') return new Sandbox(api, made);
    const reason = made.failure?.message ?? made.reason ?? 'unknown';
    throw new SandboxError('sandbox_failed', `${made.sandbox_id} did not come up: ${reason}`);
  }

  /**
   * Connects to an existing sandbox. A paused one is resumed.
   * @param options.timeoutSeconds counts from now; without it the timeout is unchanged
   */
  static async connect(id: string, options: ConnectionOptions & { timeoutSeconds?: number } = {}): Promise<Sandbox> {
    const api = new ApiClient(readConnection(options));
    const body = options.timeoutSeconds === undefined ? {} : { timeout: options.timeoutSeconds };
    return new Sandbox(api, await api.call('connectSandbox', { path: { sandbox_id: id }, body }));
  }

  /** A sandbox in its current state. It is not resumed. */
  static async get(id: string, options: ConnectionOptions = {}): Promise<Sandbox> {
    const api = new ApiClient(readConnection(options));
    return new Sandbox(api, await api.call('getSandbox', { path: { sandbox_id: id } }));
  }

  /** The sandboxes that the caller may see, newest first. */
  static async *list(options: ListOptions = {}): AsyncGenerator<SandboxSummary, void> {
    const api = new ApiClient(readConnection(options));
    const query: ListSandboxesQuery = {};
    if (options.status) query.status = options.status;
    if (options.search) query.search = options.search;
    if (options.projectId) query.project_id = options.projectId;
    if (options.metadata) query.metadata = JSON.stringify(options.metadata);
    yield* allPages(async (page) => {
      const { sandboxes, pagination } = await api.call('listSandboxes', { query: { ...query, ...page } });
      return { items: sandboxes, pagination };
    });
  }

  /** The current fields of the sandbox. */
  info(options: RequestOptions = {}): Promise<SandboxInfo> {
    return this.#api.call('getSandbox', { path: this.#path, ...options });
  }

  get #path(): { sandbox_id: string } {
    return { sandbox_id: this.id };
  }

  /** The URL of the agent, for programs that can resolve the name. */
  get url(): string {
    return publicUrl(this.domain, this.#api.connection);
  }

  /**
   * The link to its terminal or its files in a browser. The access token in the link is after the `#`, because browsers
   * send that part to no server. Everyone with the link can use the sandbox.
   */
  webUrl(page: 'terminal' | 'files' = 'terminal'): string {
    return `${this.url}/${page}#token=${encodeURIComponent(this.accessToken)}`;
  }

  /** Runs code in a context that keeps its state: Python, JavaScript, TypeScript, Bash, R, Java. */
  runCode(code: string, options: RunCodeOptions = {}): Promise<Execution> {
    return runCode(this.#agent, code, options);
  }

  /** Makes a new code context. */
  async createCodeContext({
    language = 'python',
    cwd = '',
  } = {}): Promise<{ id: string; language: string; cwd: string }> {
    const {
      id,
      language: named,
      cwd: folder,
    } = await this.#agent.call('ContextService/CreateContext', { language, cwd });
    return { id, language: named, cwd: folder };
  }

  async destroyCodeContext(context: string | { id: string }): Promise<void> {
    const contextId = typeof context === 'string' ? context : context.id;
    await this.#agent.call('ContextService/DestroyContext', { contextId });
  }

  /** Freezes the sandbox. Memory, processes and disk are kept. */
  async pause(options: RequestOptions = {}): Promise<void> {
    await this.#api.call('pauseSandbox', { path: this.#path, body: {}, ...options });
  }

  async resume(options: RequestOptions = {}): Promise<void> {
    await this.#api.call('resumeSandbox', { path: this.#path, body: {}, ...options });
  }

  /** Ends its processes and starts it again on its disk. */
  async restart(options: RequestOptions = {}): Promise<void> {
    await this.#api.call('restartSandbox', { path: this.#path, body: {}, ...options });
  }

  /**
   * Its use of processors, memory and disk, as averages of each `stepSeconds` (default 5), oldest first. The default is the
   * last 5 minutes.
   */
  async metrics({ start, end, stepSeconds, ...options }: MetricsOptions = {}): Promise<SandboxMetrics[]> {
    const query = { start: start?.toISOString(), end: end?.toISOString(), step: stepSeconds && String(stepSeconds) };
    const request = { path: this.#path, query: query as GetSandboxMetricsQuery, ...options };
    return (await this.#api.call('getSandboxMetrics', request)).metrics;
  }

  /**
   * @param seconds counted from the start of the running phase. For a timeout that counts from now, use
   *   `Sandbox.connect` with `timeoutSeconds`
   */
  async setTimeout(seconds: number, options: RequestOptions = {}): Promise<void> {
    await this.#api.call('setSandboxTimeout', { path: this.#path, body: { timeout: seconds }, ...options });
  }

  /** Ends the sandbox. It stays readable as `terminated`. Succeeds if it has already ended. */
  async terminate(options: RequestOptions = {}): Promise<void> {
    await this.#api.call('terminateSandbox', { path: this.#path, ...options });
  }

  /** Ends the sandbox and removes its data. */
  async delete(options: RequestOptions = {}): Promise<void> {
    await this.#api.call('deleteSandbox', { path: this.#path, ...options });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.terminate();
  }
}

interface SandboxAddress {
  sandbox_id: string;
  sandbox_domain: string;
  envd_access_token: string;
}

function createBody(options: CreateOptions): CreateSandboxBody {
  const body: CreateSandboxBody = {
    ...{ template: options.template, name: options.name, timeout: options.timeoutSeconds },
    ...{ auto_pause: options.autoPause, env_vars: options.envs, metadata: options.metadata },
    ...{ cpu_count: options.cpuCount, memory_mb: options.memoryMb, storage_gb: options.storageGb },
    ...{ secure: options.secure, allow_internet_access: options.allowInternetAccess, custom_ports: options.ports },
  } as CreateSandboxBody;
  return { ...body, ...options.more };
}
