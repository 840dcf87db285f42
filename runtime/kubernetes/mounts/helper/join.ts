import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { explainPlace, explainS3fs, hasAnswered, noUsableAnswer } from '../../../mounts/failures.ts';
import type { MountPlace, MountState } from '../names.ts';
import type { PodProcess } from './pod-process.ts';

const script = path.join(import.meta.dirname, 'join-pod.pl');
/** How long a bucket may take to answer. */
const readySeconds = 20;
/**
 * All failures at an endpoint in a range that the operator opened are reported this long after the start, so that their
 * timing says nothing about the network.
 */
const openedSeconds = 10;
const commandSeconds = 10;

/**
 * A child process (`join-pod.pl`) that makes one mount and places it in a sandbox. It ends together with this process.
 */
export class Join {
  readonly #child: ChildProcess;
  readonly #place: MountPlace;
  readonly #startedMs = performance.now();
  readonly #waiting: ((line: string) => void)[] = [];
  #lines: string[] = [];
  #hasEnded = false;

  private constructor(child: ChildProcess, place: MountPlace) {
    this.#child = child;
    this.#place = place;
    const take = (line: string) => {
      const next = this.#waiting.shift();
      if (next) next(line);
      else this.#lines.push(line);
    };
    createInterface({ input: child.stdout! }).on('line', take);
    child.once('error', () => take('error'));
    child.once('close', () => {
      this.#hasEnded = true;
      take('error');
    });
    // A child that ended before it read its input has already reported the cause.
    child.stdin!.on('error', () => {});
  }

  static start(sandbox: PodProcess, server: PodProcess, place: MountPlace): Join {
    const seconds = place.isOpened ? openedSeconds : readySeconds;
    const words = { server: server.pid, serverContainer: server.containerId, seconds };
    return new Join(spawnScript('join', sandbox, place, words), place);
  }

  /** Removes a mount from a sandbox. @throws {Error} when it could not be removed */
  static async unbind(sandbox: PodProcess, place: MountPlace): Promise<void> {
    const join = new Join(spawnScript('unbind', sandbox, place, {}), place);
    const line = await join.#next(commandSeconds);
    join.end();
    if (line !== 'unbound') throw new Error(`a mount could not be taken out: ${line.slice(0, 200)}`);
  }

  /**
   * Waits until the bucket answers, or returns why it does not.
   * @throws {Error} when the cause is a problem of the node
   */
  async whenReady(): Promise<MountState> {
    const line = await this.#next(readySeconds + commandSeconds);
    return line === 'ready' ? { state: 'ready' } : this.#failed(line);
  }

  /** Places the mount in the sandbox. */
  async bind(): Promise<MountState> {
    this.#child.stdin!.write('bind\n');
    const line = await this.#next(commandSeconds);
    return line === 'bound' ? { state: 'bound' } : this.#failed(line);
  }

  /** Ends the child. A mount that is not in its place is removed, and its s3fs ends. */
  end(): void {
    this.#child.stdin!.end();
    if (!this.#hasEnded) this.#child.kill('SIGKILL');
  }

  async #failed(line: string): Promise<MountState> {
    this.end();
    const { target, isOpened } = this.#place;
    const [kind = '', said = ''] = /^(\S*) ?(.*)$/s.exec(line)?.slice(1) ?? [];
    const failed = (reason: string): MountState => ({ state: 'failed', reason });
    if (kind === 'place') return failed(explainPlace(said, target));
    if (hasAnswered(line)) return failed(explainS3fs(said));
    if (isOpened && (kind === 'storage' || kind === 'late')) {
      await sleep(Math.max(0, this.#startedMs + openedSeconds * 1000 - performance.now()));
      return failed(noUsableAnswer);
    }
    if (kind === 'late') return failed('the storage did not answer in time');
    if (kind === 'storage') return failed(explainS3fs(said));
    throw new Error(`a mount could not be made: ${line.slice(0, 200)}`);
  }

  async #next(seconds: number): Promise<string> {
    const line = this.#lines.shift();
    if (line !== undefined) return line;
    const next = Promise.withResolvers<string>();
    this.#waiting.push(next.resolve);
    const timer = setTimeout(() => next.resolve('late'), seconds * 1000);
    try {
      return await next.promise;
    } finally {
      clearTimeout(timer);
    }
  }
}

function spawnScript(
  action: 'join' | 'unbind',
  sandbox: PodProcess,
  { target }: MountPlace,
  more: Record<string, string | number>,
): ChildProcess {
  const { pid: init, containerId: container } = sandbox;
  const words = Object.entries({ arch: process.arch, action, init, container, target, ...more });
  return spawn('perl', [script, ...words.map(([key, value]) => `${key}=${value}`)], {
    cwd: '/',
    env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
}
