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
 * What a node of a cluster takes of the machine, by its number: a link, networks, control groups, a folder. The kernel lets
 * go of the number's lock when the process that took it ends, however it ends; what that process left is then removed by
 * the next that takes a place.
 */
export class ClusterPlace {
  readonly number: number;
  readonly groups: ClusterGroups;
  /** The machine's end of the only link into the cluster. */
  readonly link: string;
  /** Everything that the cluster writes. */
  readonly folder: string;
  readonly #release: () => Promise<void>;

  private constructor(number: number, release: () => Promise<void> = async () => {}) {
    this.number = number;
    this.groups = new ClusterGroups(`kubernetes-of-tests-${number}`);
    this.link = `kubetest${number}`;
    this.folder = path.join(os.tmpdir(), `kubernetes-of-tests-${number}`);
    this.#release = release;
  }

  /** Takes a free place, and removes first what ended processes left in any. */
  static async take(): Promise<ClusterPlace> {
    const free: ClusterPlace[] = [];
    for (let number = 0; number < places; number += 1) {
      // The places beyond were never used.
      if (free.length > 0 && !fs.existsSync(lockOf(number))) break;
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

  /** To look at, without taking it. */
  static at(number: number): ClusterPlace {
    return new ClusterPlace(number);
  }

  static async #lock(number: number): Promise<ClusterPlace | undefined> {
    try {
      const lock = await lockFile(lockOf(number), { wait: false });
      return new ClusterPlace(number, lock.release);
    } catch (error) {
      if (error instanceof LockHeldError) return undefined;
      throw error;
    }
  }

  /** Addresses: the machine's and the node's ends of the link, and the networks behind the node. In 198.18.0.0/15, which no network of a machine uses. */
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

  /** A file of this name in the folder. */
  file(name: string): string {
    return path.join(this.folder, name);
  }

  /** @returns the file */
  write(name: string, text: string): string {
    fs.writeFileSync(this.file(name), text, { mode: 0o600 });
    return this.file(name);
  }

  /** The first process of the cluster, by the machine's numbers; all others end with it. */
  recordInit(pid: number): void {
    fs.writeFileSync(recordOf(this.number), String(pid));
  }

  /** Whether the link is there. It goes with the cluster's network, some time after its last process. */
  get hasLink(): boolean {
    return fs.existsSync(`/sys/class/net/${this.link}`);
  }

  /** Whether nothing of a cluster is in this place. */
  get isEmpty(): boolean {
    return this.groups.areGone && !this.hasLink && !fs.existsSync(this.folder) && this.#init() === undefined;
  }

  /** Safe to call again, and where nothing is left. */
  async removeRemains(): Promise<void> {
    const init = this.#init();
    if (init !== undefined) {
      process.kill(init, 'SIGKILL');
      // Its end waits for that of all others, of which a frozen one does not end.
      await until(() => {
        this.groups.thaw();
        return this.#init() === undefined;
      }, 30_000);
    }
    await this.groups.remove();
    await until(() => !this.hasLink, 30_000);
    fs.rmSync(this.folder, { recursive: true, force: true });
    fs.rmSync(recordOf(this.number), { force: true });
  }

  async giveBack(): Promise<void> {
    await this.removeRemains();
    await this.#release();
  }

  /** Undefined: it has ended. Its command line names the folder, so the number is not another process's by now. */
  #init(): number | undefined {
    if (!fs.existsSync(recordOf(this.number))) return undefined;
    const pid = Number(fs.readFileSync(recordOf(this.number), 'utf8'));
    try {
      return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(this.folder) ? pid : undefined;
    } catch (error) {
      if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code!)) return undefined;
      throw error;
    }
  }
}

const lockOf = (number: number) => path.join(records, `${number}.lock`);
const recordOf = (number: number) => path.join(records, `${number}.pid`);
