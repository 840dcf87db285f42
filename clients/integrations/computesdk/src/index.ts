import {
  type CommandResult,
  type CreateSandboxOptions,
  defineProvider,
  type RunCommandOptions,
  type SandboxInfo,
  TIMEOUT_EXIT_CODE,
} from '@computesdk/provider';
import { type ConnectionOptions, Sandbox, SandboxError } from '@sandbox-platform/client';

/** Addresses and key of the platform; without them, the environment is read. */
export interface SandboxPlatformConfig extends ConnectionOptions {
  /** The template of sandboxes that name none. Default: `base`. */
  template?: string;
  /** Milliseconds until a sandbox ends that names no time. Default: 300,000. */
  timeout?: number;
}

/** The provider `sandbox-platform` of ComputeSDK. */
export const sandboxPlatform = defineProvider<Sandbox, SandboxPlatformConfig>({
  name: 'sandbox-platform',
  methods: {
    sandbox: {
      create: async (config, options) => named(await create(config, options)),
      getById: async (config, id) => {
        const sandbox = await orNull(Sandbox.connect(id, config), ['not_found', 'sandbox_ended']);
        return sandbox && named(sandbox);
      },
      list: async (config) => {
        const found: Promise<Sandbox | null>[] = [];
        for await (const { sandbox_id } of Sandbox.list({ ...config, status: 'running,paused' }))
          found.push(orNull(Sandbox.get(sandbox_id, config), ['not_found']));
        return (await Promise.all(found)).filter((sandbox) => sandbox !== null).map(named);
      },
      destroy: async (config, id) => {
        const sandbox = await orNull(Sandbox.get(id, config), ['not_found']);
        await sandbox?.terminate();
      },
      runCommand,
      streamCommand: runCommand,
      getInfo,
      getUrl,
      filesystem: {
        readFile: (sandbox, path) => sandbox.files.read(path),
        writeFile: (sandbox, path, content) => sandbox.files.write(path, content),
        mkdir: async (sandbox, path) => {
          await sandbox.files.makeDir(path);
        },
        readdir: async (sandbox, path) =>
          (await sandbox.files.list(path)).map(({ name, type, size, modifiedAt }) => ({
            ...{ name, size, modified: modifiedAt },
            type: type === 'directory' ? 'directory' : 'file',
          })),
        exists: (sandbox, path) => sandbox.files.exists(path),
        remove: (sandbox, path) => sandbox.files.remove(path),
      },
    },
  },
});

const named = (sandbox: Sandbox) => ({ sandbox, sandboxId: sandbox.id });

async function orNull<T>(work: Promise<T>, codes: string[]): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof SandboxError && codes.includes(error.code)) return null;
    throw error;
  }
}

/** `cpuCount`, `memoryMb`, `storageGb` and `ports` are options of this provider. */
function create(config: SandboxPlatformConfig, options: CreateSandboxOptions = {}): Promise<Sandbox> {
  if (options.image)
    throw new Error(`Import the image ${options.image} as a template, and pass its name as templateId`);
  const { name, envs, signal, metadata, cpuCount, memoryMb, storageGb, ports = [] } = options;
  const asText = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
  return Sandbox.create({
    ...config,
    ...{ name, envs, signal, cpuCount, memoryMb, storageGb },
    template: options.templateId ?? options.snapshotId ?? config.template,
    timeoutSeconds: Math.ceil((options.timeout ?? config.timeout ?? 300_000) / 1000),
    metadata: metadata && Object.fromEntries(Object.entries(metadata).map(([key, value]) => [key, asText(value)])),
    ports: ports.map((port: number) => ({ port, name: `port-${port}` })),
  });
}

/** A command that exceeds its timeout is killed and has the exit code 124. */
async function runCommand(sandbox: Sandbox, command: string, options: RunCommandOptions = {}): Promise<CommandResult> {
  const { cwd, env, timeout, background, onStdout, onStderr } = options;
  const startedMs = performance.now();
  const durationMs = () => Math.round(performance.now() - startedMs);
  const limits = { cwd, envs: env, timeoutMs: timeout, onStdout, onStderr };
  const running = await sandbox.commands.run(command, { ...limits, background: true });
  if (background) {
    running.disconnect();
    return { exitCode: 0, stdout: '', stderr: '', durationMs: durationMs() };
  }
  try {
    const { exitCode, stdout, stderr } = await running.wait();
    return { exitCode, stdout, stderr, durationMs: durationMs() };
  } catch (error) {
    if (!(error instanceof SandboxError) || error.code !== 'timed_out') throw error;
    const stderr = `${running.stderr}${error.message}\n`;
    return { exitCode: TIMEOUT_EXIT_CODE, stdout: running.stdout, stderr, durationMs: durationMs() };
  }
}

async function getInfo(sandbox: Sandbox): Promise<SandboxInfo> {
  const info = await sandbox.info();
  const hasStopped = ['pausing', 'paused', 'terminating', 'terminated'].includes(info.status);
  return {
    id: info.sandbox_id,
    provider: 'sandbox-platform',
    status: info.status === 'failed' ? 'error' : hasStopped ? 'stopped' : 'running',
    createdAt: new Date(info.created_at),
    timeout: info.timeout * 1000,
    metadata: info.metadata,
  };
}

/** The URL of a public port. The URL of another port has a signature, which ends with the sandbox. */
async function getUrl(sandbox: Sandbox, { port, protocol }: { port: number; protocol?: string }): Promise<string> {
  const { ports } = await sandbox.info();
  const isPublic = ports.some((each) => each.port === port && !each.is_protected);
  const url = sandbox.ports.url(port, isPublic ? {} : { signed: 'write' });
  return protocol?.startsWith('ws') ? url.replace(/^http/, 'ws') : url;
}
