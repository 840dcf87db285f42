import { setTimeout as delay } from 'node:timers/promises';
import type { SandboxId } from '../../domain/ids.ts';
import type { ApiReply, PlatformClient, SandboxView } from '../../ops/development/client/platform-client.ts';
import type { RunningPlatform } from '../support/running-platform.ts';
import { until } from '../support/until.ts';

const wanted = { cpu_count: 1, memory_mb: 256, storage_gb: 1, allow_internet_access: false };
const maxSandboxes = 4;
/** A sandbox that is paused during a request answers it after its resume, which may never come. */
const timeoutMs = 10_000;
/** Reasons for pauses that no request caused. */
const pausedByHost = ['host_disk_pressure', 'host_restarted'];

/** What a platform acknowledged up to some moment, and how many requests it refused. */
export interface Acknowledged {
  projects: readonly string[];
  /** The status after the last acknowledged command, and the one that an unanswered command may have caused. */
  sandboxes: ReadonlyMap<SandboxId, { status: string; asked: string | null }>;
  files: readonly string[];
  refused: Record<Kind, number>;
}
type Kind = 'projects' | 'sandboxes' | 'files';

/** For one kind: how many were acknowledged, were refused, and were found again. */
export interface Tally {
  kind: Kind;
  acknowledged: number;
  refused: number;
  found: number;
  /** Differences from the acknowledged state. */
  lost: string[];
}

/** Continuously asks a platform for projects, sandboxes and files, and remembers what it acknowledged. */
export class AcknowledgedWork {
  readonly #platform: RunningPlatform;
  readonly #neighbour: SandboxView;
  readonly #areFilesSynced: boolean;
  readonly #projects: string[] = [];
  readonly #sandboxes = new Map<SandboxId, { status: string; asked: string | null }>();
  readonly #files: string[] = [];
  readonly #refused = { projects: 0, sandboxes: 0, files: 0 };
  #isOver = false;
  #working: Promise<unknown> = Promise.resolve();

  /**
   * @param neighbour the sandbox in which the files are written
   * @param areFilesSynced a file counts only after a `sync` in its sandbox
   */
  constructor(platform: RunningPlatform, neighbour: SandboxView, { areFilesSynced = false } = {}) {
    this.#platform = platform;
    this.#neighbour = neighbour;
    this.#areFilesSynced = areFilesSynced;
  }

  begin(): void {
    this.#working = Promise.all([this.#makeProjects(), this.#makeSandboxes(), this.#writeFiles()]);
  }

  /** Resolves when every request has been answered. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#working;
  }

  soFar(): Acknowledged {
    return {
      projects: [...this.#projects],
      sandboxes: new Map([...this.#sandboxes].map(([id, state]) => [id, { ...state }])),
      files: [...this.#files],
      refused: { ...this.#refused },
    };
  }

  async #makeProjects(): Promise<void> {
    const api = this.#platform.client();
    for (let number = 0; !this.#isOver; number += 1) {
      const reply = await answer(
        api.request<{ project_id: string }>('POST', '/v1/projects', { name: `Acknowledged ${number}` }),
      );
      if (reply?.status === 201) this.#projects.push(reply.body.data.project_id);
      else this.#refused.projects += 1;
      await delay(100);
    }
  }

  /** Every second one is paused. If there are many, the oldest is terminated. */
  async #makeSandboxes(): Promise<void> {
    const api = this.#platform.client();
    for (let number = 0; !this.#isOver; number += 1) {
      await delay(300);
      const live = [...this.#sandboxes].filter(([, { status }]) => status !== 'terminated');
      if (live.length >= maxSandboxes) await this.#command(api, live[0]![0], 'terminate', 'terminated');
      const made = await answer(api.request<SandboxView>('POST', '/v1/sandboxes', wanted));
      if (made?.status !== 201) {
        this.#refused.sandboxes += 1;
        continue;
      }
      const { sandbox_id: sandboxId, status } = made.body.data;
      this.#sandboxes.set(sandboxId, { status, asked: null });
      if (number % 2 === 1) await this.#command(api, sandboxId, 'pause', 'paused');
    }
  }

  async #command(api: PlatformClient, sandboxId: SandboxId, command: string, status: string): Promise<void> {
    const state = this.#sandboxes.get(sandboxId)!;
    state.asked = status;
    const reply = await answer(api.request('POST', `/v1/sandboxes/${sandboxId}/${command}`, {}));
    if (isSuccess(reply)) Object.assign(state, { status, asked: null });
    else this.#refused.sandboxes += 1;
  }

  async #writeFiles(): Promise<void> {
    const agent = this.#platform.agent(this.#neighbour);
    for (let number = 0; !this.#isOver; number += 1) {
      const name = `acknowledged-${number}`;
      const write = async () => {
        await agent.upload(`/root/${name}`, createContent(name));
        return this.#areFilesSynced ? (await agent.run('sync')).exitCode === 0 : true;
      };
      if (await answer(write())) this.#files.push(name);
      else this.#refused.files += 1;
      await delay(200);
    }
    agent.close();
  }
}

/** Searches for everything that was acknowledged. The sandbox with the files is resumed when it is paused. */
export async function findAll(
  platform: RunningPlatform,
  { projects, sandboxes, files, refused }: Acknowledged,
  neighbour: SandboxView,
): Promise<Tally[]> {
  const api = platform.client();
  const tally = async <Id extends string>(kind: Kind, all: Iterable<Id>, isFound: (id: Id) => Promise<boolean>) => {
    const ids = [...all];
    const lost: string[] = [];
    for (const id of ids) if (!(await isFound(id))) lost.push(id);
    return { kind, acknowledged: ids.length, refused: refused[kind], found: ids.length - lost.length, lost };
  };
  const isAsAcknowledged = async (sandboxId: SandboxId) => {
    const state = sandboxes.get(sandboxId)!;
    // Its host may still have to report something about it.
    const isSo = async () => isLike(state, await api.sandbox(sandboxId));
    return until(isSo, 30_000).then(
      () => true,
      () => false,
    );
  };
  const found = [
    await tally('projects', projects, async (id) => (await api.request('GET', `/v1/projects/${id}`)).status === 200),
    await tally('sandboxes', sandboxes.keys(), isAsAcknowledged),
  ];
  const agent = platform.agent(neighbour);
  // After a restart the row says running until the host's report about the end has arrived.
  await until(async () => {
    await untilRunning(api, neighbour.sandbox_id);
    return (await answer(agent.run('true')))?.exitCode === 0;
  }, 60_000);
  const isWhole = async (name: string) =>
    (await answer(agent.download(`/root/${name}`)))?.toString() === createContent(name);
  const filesFound = await tally('files', files, isWhole);
  agent.close();
  return [...found, filesFound];
}

export async function untilRunning(api: PlatformClient, sandboxId: SandboxId): Promise<void> {
  const isRunning = async () => {
    const sandbox = await api.sandbox(sandboxId);
    if (sandbox.status !== 'paused') return sandbox.status === 'running';
    return isSuccess(await api.request('POST', `/v1/sandboxes/${sandboxId}/resume`, {}));
  };
  await until(isRunning, 60_000);
}

function isLike(acknowledged: { status: string; asked: string | null }, sandbox: SandboxView | undefined): boolean {
  if (!sandbox) return false;
  if ([acknowledged.status, acknowledged.asked].includes(sandbox.status)) return true;
  return (
    acknowledged.status === 'running' && sandbox.status === 'paused' && pausedByHost.includes(sandbox.reason ?? '')
  );
}

const createContent = (name: string) => `${name} `.repeat(400);
const isSuccess = (reply: ApiReply<unknown> | null) => reply !== null && reply.status < 300;

/** Null when the connection failed, the request was refused or there was no answer: nothing was acknowledged. */
async function answer<Reply>(asked: Promise<Reply>): Promise<Reply | null> {
  const done = new AbortController();
  const unanswered = delay(timeoutMs, null, { signal: done.signal }).catch(() => null);
  const reply = await Promise.race([asked.catch(() => null), unanswered]);
  done.abort();
  return reply;
}

/** For the printed output. */
export const formatRow = ({ kind, acknowledged, refused, found, lost }: Tally): string =>
  `${kind.padEnd(10)} acknowledged ${acknowledged}, refused ${refused}, found ${found}${lost.length ? `, lost ${lost}` : ''}`;
