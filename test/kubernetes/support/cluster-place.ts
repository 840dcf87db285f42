import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { LockHeldError, lockFile } from '../../../ops/setup/file-lock.mjs';
import { until } from '../../support/until.ts';
import { ClusterGroups } from './control-groups.ts';

const records = '/run/kubernetes-of-tests';
const places = 64;
/** The pods of all places, as CIDR. */
export const networkOfAllPods = '198.19.0.0/16';

/**
 * The resources of the machine that a node of a cluster uses: a link, networks, control groups and a folder. All are
 * named after the number of the place. A lock protects the number. The kernel releases it when the process ends, and
 * the next process that takes a place removes the remains.
 */
export class ClusterPlace {
  readonly number: number;
  readonly groups: ClusterGroups;
  /** The machine's end of the only link into the cluster. */
  readonly link: string;
  /** The folder for all files of the node. */
  readonly folder: string;
  readonly #release: () => Promise<void>;

  private constructor(number: number, release: () => Promise<void> = async () => {}) {
    this.number = number;
    this.groups = new ClusterGroups(`kubernetes-of-tests-${number}`);
    this.link = `kubetest${number}`;
    this.folder = path.join(os.tmpdir(), `kubernetes-of-tests-${number}`);
    this.#release = release;
  }

  /** Takes a free place. Before that it removes the remains of ended processes from all places. */
  static async take(): Promise<ClusterPlace> {
    const free: ClusterPlace[] = [];
    for (let number = 0; number < places; number += 1) {
      // A place without a lock file, and all places after it, were never used.
      if (free.length > 0 && !fs.existsSync(lockPath(number))) break;
      const place = await ClusterPlace.#lock(number);
      if (!place) continue;
      await place.removeRemains();
      free.push(place);
    }
    const [taken, ...others] = free;
    for (const other of others) await other.#release();
    if (!taken) throw new Error(`All ${places} places for clusters of tests are taken`);
    fs.mkdirSync(taken.folder);
    return taken;
  }

  /** A place to inspect. This does not take it. */
  static at(number: number): ClusterPlace {
    return new ClusterPlace(number);
  }

  static async #lock(number: number): Promise<ClusterPlace | undefined> {
    try {
      const lock = await lockFile(lockPath(number), { wait: false });
      return new ClusterPlace(number, lock.release);
    } catch (error) {
      if (error instanceof LockHeldError) return undefined;
      throw error;
    }
  }

  /**
   * The addresses of both ends of the link, and the networks behind the node. They are in 198.18.0.0/15, a range for
   * benchmarks that real networks do not use.
   */
  get network() {
    const { number } = this;
    return {
      machine: `198.18.${number}.1`,
      node: `198.18.${number}.2`,
      services: `198.18.${64 + number}.0/24`,
      firstService: `198.18.${64 + number}.1`,
      pods: `198.19.${2 * number}.0/23`,
    };
  }

  /** The path of a file in the folder. */
  file(name: string): string {
    return path.join(this.folder, name);
  }

  /** Writes a file in the folder. @returns its path */
  write(name: string, text: string): string {
    fs.writeFileSync(this.file(name), text, { mode: 0o600 });
    return this.file(name);
  }

  /** Stores the process number of the node's first process. All other processes of the node end with it. */
  recordInit(pid: number): void {
    fs.writeFileSync(recordPath(this.number), String(pid));
  }

  /** Whether the link exists. The kernel removes it some time after the last process of the node. */
  get hasLink(): boolean {
    return fs.existsSync(`/sys/class/net/${this.link}`);
  }

  /** Whether a cluster has left nothing in this place. */
  get isEmpty(): boolean {
    return this.groups.areGone && !this.hasLink && !fs.existsSync(this.folder) && this.#init() === undefined;
  }

  /** Removes the remains of a cluster. It may be called again, and when nothing is left. */
  async removeRemains(): Promise<void> {
    const init = this.#init();
    if (init !== undefined) {
      process.kill(init, 'SIGKILL');
      // The first process ends after all others, and a frozen process cannot end before it is thawed.
      await until(() => {
        this.groups.thaw();
        return this.#init() === undefined;
      }, 30_000);
    }
    await this.groups.remove();
    await until(() => !this.hasLink, 30_000);
    fs.rmSync(this.folder, { recursive: true, force: true });
    fs.rmSync(recordPath(this.number), { force: true });
  }

  async release(): Promise<void> {
    await this.removeRemains();
    await this.#release();
  }

  /**
   * The number of the node's first process. Undefined: it has ended. The command line is checked for the folder,
   * because the kernel may have given the number to another process.
   */
  #init(): number | undefined {
    if (!fs.existsSync(recordPath(this.number))) return undefined;
    const pid = Number(fs.readFileSync(recordPath(this.number), 'utf8'));
    try {
      return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(this.folder) ? pid : undefined;
    } catch (error) {
      if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code!)) return undefined;
      throw error;
    }
  }
}

const lockPath = (number: number) => path.join(records, `${number}.lock`);
const recordPath = (number: number) => path.join(records, `${number}.pid`);
