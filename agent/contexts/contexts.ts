import { randomUUID } from 'node:crypto';
import fs from 'node:fs/promises';
import { Code } from '@connectrpc/connect';
import type { AgentEnvironment } from '../boot/environment.ts';
import { makeFolders } from '../filesystem/make-folders.ts';
import { resolvePath } from '../filesystem/path.ts';
import { freeMemoryBytes } from '../memory/free-memory.ts';
import { ConnectError } from '../rpc/connect-error.ts';
import { isSystemError, toConnectError } from '../rpc/errors.ts';
import { BashKernel } from './bash-kernel.ts';
import { Context, type ContextInfo, checkEnvVars } from './context.ts';
import { type ExecuteEvent, ExecutionOutput } from './execution-output.ts';
import { startInstalledKernel } from './jupyter/installed-kernel.ts';
import { startPython } from './jupyter/python.ts';
import type { Kernel, KernelStart } from './kernel.ts';
import { type KernelLanguage, kernelLanguage } from './languages.ts';
import { NodeKernel } from './node-kernel.ts';

export interface ContextsOptions {
  environment: AgentEnvironment;
  /** The folder of the scripts that run in the kernels' processes. */
  scripts: string;
  /** The Node binary for JavaScript and TypeScript. The default is this process's binary. */
  node?: string;
  /** How long an interrupted execution may take to end before its kernel is killed. */
  interruptGraceMs?: number;
  /**
   * The folder of contexts without an own one. The default is `/workspace`, or the home directory if that is missing.
   */
  defaultFolder?: string;
}

export interface ExecuteRequest {
  /** Empty: the sandbox's default context of the language. */
  contextId: string;
  code: string;
  /** Empty: the context's own language, and Python for a default context. */
  language: string;
  envVars: Record<string, string>;
  /** The folder of the default context. Each folder has its own. Empty: the default folder. */
  defaultCwd?: string;
  /** Fill `data` of tables. */
  wantsData: boolean;
  /** Fill `json` of Python's lists and dictionaries. */
  wantsJson?: boolean;
}

const defaultLanguage = 'python';
/** All built-in templates have this folder. */
const workspace = '/workspace';
const defaultInterruptGraceMs = 5000;
const mebibyte = 1024 * 1024;
/** What an idle interpreter needs at least. */
const neededBytes: Record<KernelLanguage, number> = {
  python: 64 * mebibyte,
  javascript: 48 * mebibyte,
  typescript: 48 * mebibyte,
  bash: 4 * mebibyte,
  r: 64 * mebibyte,
  java: 96 * mebibyte,
};

/** The code contexts of this sandbox. */
export class Contexts {
  readonly #options: ContextsOptions;
  readonly #contexts = new Map<string, Context>();
  /** By language and folder. */
  readonly #defaults = new Map<string, Promise<Context>>();
  /** The need of interpreters that are starting, and have not used their memory yet. */
  #startingBytes = 0;

  constructor(options: ContextsOptions) {
    this.#options = options;
  }

  /**
   * Starts an interpreter and returns when it can run code.
   * @throws {ConnectError} `invalid_argument` for an unknown language or a `cwd` that cannot be a folder,
   * `failed_precondition` when the template lacks the language, `resource_exhausted` when the sandbox has no memory or
   * no process left for it
   */
  async create(request: { language: string; cwd: string }, signal: AbortSignal): Promise<ContextInfo> {
    const context = await this.#start(request.language || defaultLanguage, request.cwd, signal);
    return context.info;
  }

  /** Every context, oldest first. */
  list(): ContextInfo[] {
    return [...this.#contexts.values()].map(({ info }) => info);
  }

  /**
   * Gives a context a new interpreter without the old one's state, and returns when it can run code. The code in
   * progress ends with an error.
   * @throws {ConnectError} `not_found`, and the errors of `create`
   */
  async restart(contextId: string): Promise<void> {
    const context = this.#find(contextId);
    // Other clients may share the context, so the restart continues when this one leaves.
    await context.restart(() => this.#startKernel(context.language, context.info.cwd, neverAborted()));
    if (context.closed) throw notFound(contextId);
  }

  /** Ends a context, even if its kernel has died. @throws {ConnectError} `not_found` */
  async destroy(contextId: string): Promise<void> {
    const context = this.#find(contextId);
    this.#contexts.delete(contextId);
    await context.close();
  }

  /**
   * Runs code and yields its output. The last event is the main result or the error. When the reader leaves or `signal`
   * aborts, the code is interrupted.
   * @throws {ConnectError} `not_found` for an unknown context, and the errors of `create` for a default one
   */
  async *execute(request: ExecuteRequest, signal: AbortSignal): AsyncGenerator<ExecuteEvent> {
    yield* await this.prepare(request, signal);
  }

  /** As `execute`, but throws its errors before there are events. The code runs from the first read on. */
  async prepare(request: ExecuteRequest, signal: AbortSignal): Promise<AsyncGenerator<ExecuteEvent>> {
    const context = await this.#contextFor(request, signal);
    checkEnvVars(context.language, request.envVars);
    return this.#run(context, request, signal);
  }

  async *#run(context: Context, request: ExecuteRequest, signal: AbortSignal): AsyncGenerator<ExecuteEvent> {
    const { code, envVars, wantsData, wantsJson = false } = request;
    const output = new ExecutionOutput();
    const cancel = new AbortController();
    const leave = () => {
      output.discard();
      cancel.abort();
    };
    signal.addEventListener('abort', leave);
    try {
      if (signal.aborted) return;
      context.run({ code, envVars, wantsData, wantsJson }, output, cancel.signal);
      yield* output;
    } finally {
      signal.removeEventListener('abort', leave);
      leave();
    }
  }

  /** Ends every context. */
  async close(): Promise<void> {
    const all = [...this.#contexts.values()];
    this.#contexts.clear();
    this.#defaults.clear();
    await Promise.all(all.map((context) => context.close()));
  }

  async #contextFor({ contextId, language, defaultCwd }: ExecuteRequest, signal: AbortSignal): Promise<Context> {
    if (contextId === '') return this.#defaultContext(language || defaultLanguage, defaultCwd ?? '');
    const context = this.#find(contextId);
    if (language !== '' && kernelLanguage(language) !== context.language) {
      throw new ConnectError(
        `context ${contextId} is for ${context.info.language}, not ${language}`,
        Code.InvalidArgument,
      );
    }
    signal.throwIfAborted();
    return context;
  }

  #find(contextId: string): Context {
    const context = this.#contexts.get(contextId);
    if (!context) throw notFound(contextId);
    return context;
  }

  /** Replaces a default context whose kernel has died. Clients do not know its id, so they cannot destroy it. */
  #defaultContext(language: string, cwd: string): Promise<Context> {
    const key = `${kernelLanguage(language)} ${cwd}`;
    // Starts run in sequence, so that two first executions of a language share a context. After a failed start the next
    // execution tries again.
    const before = this.#defaults.get(key)?.catch(() => undefined) ?? Promise.resolve(undefined);
    const context = before.then(async (known) => {
      if (known && !known.dead) return known;
      if (known && this.#contexts.has(known.info.id)) await this.destroy(known.info.id);
      // All clients share the context, so its start continues when the client that caused it leaves.
      return this.#start(language, cwd, neverAborted());
    });
    this.#defaults.set(key, context);
    return context;
  }

  async #defaultFolder(): Promise<string> {
    const { environment, defaultFolder = workspace } = this.#options;
    return (await isFolder(defaultFolder)) ? defaultFolder : environment.home();
  }

  async #start(language: string, cwd: string, signal: AbortSignal): Promise<Context> {
    const kernelName = kernelLanguage(language);
    const { environment, interruptGraceMs = defaultInterruptGraceMs } = this.#options;
    const folder = cwd === '' ? await this.#defaultFolder() : await namedFolder(cwd, environment.home());
    const createdAt = new Date();
    const kernel = await this.#startKernel(kernelName, folder, signal);
    const info = { id: `ctx-${randomUUID()}`, language, cwd: folder, createdAt, envVars: {} };
    const context = new Context(info, kernelName, kernel, interruptGraceMs);
    if (signal.aborted) {
      await context.close();
      signal.throwIfAborted();
    }
    this.#contexts.set(info.id, context);
    return context;
  }

  #startKernel(language: KernelLanguage, cwd: string, signal: AbortSignal): Promise<Kernel> {
    const { environment, scripts, node = process.execPath } = this.#options;
    const env = { ...environment.variables(), PWD: cwd };
    return this.#withinMemory(language, () =>
      startKernel(language, { cwd, env, searchPath: environment.searchPath(env), scripts, node, signal }),
    );
  }

  /**
   * Without this check the last context would end another one, because the kernel ends the largest process when memory
   * runs out.
   */
  async #withinMemory(language: KernelLanguage, start: () => Promise<Kernel>): Promise<Kernel> {
    const needed = neededBytes[language];
    const free = freeMemoryBytes() - this.#startingBytes;
    if (free < needed) {
      const [has, needs] = [Math.max(free, 0), needed].map((bytes) => Math.floor(bytes / mebibyte));
      const text = `the sandbox has ${has} MiB of free memory, and a ${language} context needs ${needs} MiB: destroy another`;
      throw new ConnectError(text, Code.ResourceExhausted);
    }
    this.#startingBytes += needed;
    try {
      return await start();
    } finally {
      this.#startingBytes -= needed;
    }
  }
}

function neverAborted(): AbortSignal {
  return new AbortController().signal;
}

function notFound(contextId: string): ConnectError {
  return new ConnectError(`context ${contextId} not found`, Code.NotFound);
}

async function startKernel(language: KernelLanguage, start: KernelStart): Promise<Kernel> {
  switch (language) {
    case 'python':
      return startPython(start);
    case 'javascript':
    case 'typescript':
      return NodeKernel.start(language, start);
    case 'bash':
      return BashKernel.start(start);
    case 'r':
    case 'java':
      return startInstalledKernel(language, start);
  }
}

/**
 * Makes the folder of a context, with its parents, if it is missing.
 * @throws {ConnectError} `invalid_argument` when the path is not a folder and cannot become one
 */
async function namedFolder(cwd: string, home: string): Promise<string> {
  const folder = resolvePath(cwd, home, 'cwd');
  try {
    await makeFolders(folder);
    return folder;
  } catch (error) {
    const isOther = isSystemError(error) && error.code === 'EEXIST';
    const reason = isOther ? `${folder}: not a directory` : toConnectError(error, folder).rawMessage;
    throw new ConnectError(`cwd ${reason}`, Code.InvalidArgument);
  }
}

async function isFolder(folder: string): Promise<boolean> {
  const stats = await fs.stat(folder).catch(() => undefined);
  return stats?.isDirectory() ?? false;
}
