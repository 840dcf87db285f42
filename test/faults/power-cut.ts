import { rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SandboxId } from '../../domain/ids.ts';
import { leaveMachine } from '../runtime/inventory.ts';
import { LocalHost, nothing, onHost, shell } from '../runtime/local-host.ts';
import { until } from '../support/until.ts';
import { CutDisk } from './cut-disk.ts';

const diskSize = '8G';
const outerSize = '12G';

/** The state that was promised to callers at the moment of a cut. */
interface Promised {
  /** Created and not asked to be removed, with the text that was synced inside, if any. */
  sandboxes: Map<SandboxId, string | null>;
  /** Removed, as confirmed to its caller. */
  removed: string[];
}

/** A host whose data folder is on a disk that can be copied at any moment, like after a power cut. */
export class CutHost {
  readonly #disk = new CutDisk();
  readonly #host = new LocalHost();
  readonly #promised: Promised = { sandboxes: new Map(), removed: [] };

  /** Runs a test with such a host, and cleans up afterwards. The error of the test takes precedence. */
  static async with(work: (host: CutHost) => Promise<void>): Promise<void> {
    const host = new CutHost();
    try {
      await host.#open();
      await work(host);
    } catch (error) {
      await host.#close().catch((closing) => console.error('after the error the clean-up failed, too:', closing));
      throw error;
    }
    await host.#close();
  }

  async #open(): Promise<void> {
    this.#disk.mountNew(diskSize, outerSize);
    await this.#start();
  }

  /** Creates, pauses, resumes and removes sandboxes until the given number of cuts is made. Then the power is off. */
  async liveThrough(cuts: number): Promise<{ file: string; promised: Promised }[]> {
    const stop = new AbortController();
    const lives = Promise.all([0, 1, 2].map(() => this.#live(stop.signal)));
    const made: { file: string; promised: Promised }[] = [];
    for (let at = 0; at < cuts; at += 1) {
      // Any moment is fine: each cut finds other work in progress.
      await sleep(1000 + Math.random() * 2000);
      made.push(this.#cut());
    }
    stop.abort();
    await lives;
    await this.#powerOff();
    await this.#disk.unmount();
    return made;
  }

  /** Starts the host on a copy and compares its state with the promises. */
  async comeBack({ file, promised }: { file: string; promised: Promised }): Promise<void> {
    this.#disk.mountCopy(file);
    this.#host.warnings.length = 0;
    await this.#start();
    const { driver } = this.#host;
    const found = await driver.list();
    for (const [sandboxId, text] of promised.sandboxes) {
      const about = found.find((each) => each.sandboxId === sandboxId);
      expect({ sandboxId, state: about?.state, exit: about?.exit }).toEqual({ sandboxId, state: 'exited', exit: null });
      const spec = this.#host.spec({ sandboxId });
      const place = await driver.resume(spec);
      expect((await shell(place, spec, 'cat /root/note 2>/dev/null')).output).toEqual(text ?? expect.any(String));
    }
    // Unanswered work is requested again, or removed, as its workflow would do.
    for (const { sandboxId } of found) {
      if (promised.sandboxes.has(sandboxId)) continue;
      const spec = this.#host.spec({ sandboxId });
      expect((await shell(await driver.create(spec), spec, 'echo there')).output).toBe('there');
    }
    expect(this.#host.warnings).toEqual([]);
    await driver.close();
    await driver.reconcile([]);
    expect(await this.#host.inventory()).toMatchObject(nothing);
    await leaveMachine(driver);
    await this.#disk.unmount();
    rmSync(file);
  }

  async #close(): Promise<void> {
    if (this.#disk.isMounted && this.#host.driver) await leaveMachine(this.#host.driver);
    await this.#disk.remove();
    rmSync(this.#host.dataDir, { recursive: true });
  }

  #start(): Promise<void> {
    return this.#host.start({ dataDir: path.join(this.#disk.folder, 'data'), warmPoolSize: 1 });
  }

  async #live(signal: AbortSignal): Promise<void> {
    const { driver } = this.#host;
    const { sandboxes, removed } = this.#promised;
    for (let round = 0; !signal.aborted; round += 1) {
      const spec = this.#host.spec({ memoryMb: 128, storageGb: 10 });
      const place = await driver.create(spec);
      sandboxes.set(spec.sandboxId, null);
      const text = `of ${spec.sandboxId}`;
      await shell(place, spec, `echo ${text} >/root/note; sync`);
      sandboxes.set(spec.sandboxId, text);
      await driver.pause(spec.sandboxId);
      await driver.resume(spec);
      await driver.stop(spec.sandboxId);
      await driver.resume(spec);
      if (round % 3 === 0) continue;
      sandboxes.delete(spec.sandboxId);
      await driver.remove(spec.sandboxId);
      removed.push(spec.sandboxId);
    }
  }

  /** Nothing of the test runs between the promise and the freeze, so the copy contains everything that was promised. */
  #cut(): { file: string; promised: Promised } {
    const promised = { sandboxes: new Map(this.#promised.sandboxes), removed: [...this.#promised.removed] };
    return { file: this.#disk.cut(), promised };
  }

  /** Everything of the host ends at once without a record of the end. */
  async #powerOff(): Promise<void> {
    await this.#host.driver.close();
    const { shims, processes } = await this.#host.inventory();
    for (const pid of [...shims, ...processes]) onHost('sh', '-c', `kill -9 ${pid} 2>/dev/null || :`);
    await until(async () => (await this.#host.inventory()).loopDevices.length === 0, 60_000);
    await leaveMachine(this.#host.driver);
  }
}
