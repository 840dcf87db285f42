import { expect } from '@jest/globals';
import type { MountCredentials, MountSlot } from '../../domain/sandboxes/object-storage.ts';
import type { SandboxPlace, SandboxSpec, WantedMounts } from '../../runtime/driver.ts';
import type { OciDriverOptions } from '../../runtime/oci/options.ts';
import type { S3Server } from '../support/s3-server.ts';
import { type LocalHost, shell } from './local-host.ts';

/** The state of a test file that has begun. */
interface Parts {
  host: LocalHost;
  s3: S3Server;
  /** Fields of every sandbox. */
  wanted?: Partial<SandboxSpec>;
}

/** Sandboxes with buckets of a real S3 server, and the checks for both kinds of mount. */
export class MountedSandboxes {
  readonly #parts: () => Parts;
  readonly #who: Pick<WantedMounts, 'direct'>;

  /** @param who mounts: the host, or the image's own s3fs */
  constructor(parts: () => Parts, who: Pick<WantedMounts, 'direct'> = {}) {
    this.#parts = parts;
    this.#who = who;
  }

  readonly slot = (fields: Partial<MountSlot> = {}): MountSlot => ({
    slot: 0,
    state: 'active',
    uri: 's3://data/',
    mountPoint: '/mnt/data',
    region: 'us-east-1',
    endpoint: this.#parts().s3.endpoint,
    shortLived: false,
    ...fields,
  });

  readonly key = (fields: Partial<MountCredentials> = {}): MountCredentials => ({
    accessKey: this.#parts().s3.accessKey,
    secretKey: this.#parts().s3.secretKey,
    sessionToken: null,
    ...fields,
  });

  /** Mounts these slots again, with the server's own key. */
  readonly anew = (...slots: MountSlot[]): WantedMounts => ({
    ...this.kept(...slots),
    credentials: Object.fromEntries(slots.map((each) => [each.slot, this.key()])),
  });

  readonly kept = (...slots: MountSlot[]): WantedMounts => ({
    slots,
    credentials: {},
    bestEffort: false,
    ...this.#who,
  });

  readonly createSpec = (storage: WantedMounts): SandboxSpec => {
    const { host, wanted } = this.#parts();
    return host.spec({ ...wanted, storage });
  };

  /** Makes a sandbox, passes it to the test, and checks that nothing of it is left. */
  readonly withSandbox = async (
    storage: WantedMounts,
    work: (place: SandboxPlace, spec: SandboxSpec) => Promise<void>,
  ): Promise<void> => {
    const { driver } = this.#parts().host;
    const spec = this.createSpec(storage);
    try {
      await work(await driver.create(spec), spec);
    } finally {
      await this.#parts().host.driver.remove(spec.sandboxId);
    }
    expect((await this.#parts().host.inventory()).bucketProcesses).toEqual([]);
  };

  /**
   * The sandbox is paused and has `/mnt/data`, in which `pause.txt` contains `before`, and `/mnt/second`. A resume
   * removes the second mount and adds a third. Another resume, which fails, changes nothing.
   */
  async changeAtResumes(spec: SandboxSpec): Promise<void> {
    const { slot, key, kept } = this;
    const { s3, host } = this.#parts();
    const third = slot({ slot: 2, uri: 's3://more/', mountPoint: '/mnt/third' });
    const off = slot({ slot: 1, mountPoint: '/mnt/second', state: 'disabled' });
    const change = { ...kept(slot(), off, third), credentials: { 2: key() } };
    const place = await host.driver.resume({ ...spec, storage: change });
    expect(place).toMatchObject({ from: 'thaw', slots: [slot(), off, third] });
    const look = `cat /mnt/data/pause.txt; echo third > /mnt/third/t; grep fuse.s3fs /proc/mounts | cut -d' ' -f2`;
    expect((await shell(place, spec, look)).output).toBe('before\n/mnt/data\n/mnt/third');
    expect(s3.read('more', 't')).toBe('third\n');

    await host.driver.pause(spec.sandboxId);
    const wrong = { ...kept(slot(), third), credentials: { 2: key({ secretKey: 'wrong' }) } };
    await expect(host.driver.resume({ ...spec, storage: wrong })).rejects.toMatchObject({
      code: 'object_storage_mount_failed',
    });
    expect((await host.driver.inspect(spec.sandboxId)).state).toBe('paused');
    const again = await host.driver.resume({ ...spec, storage: kept(slot(), third) });
    expect((await shell(again, spec, 'cat /mnt/third/t /mnt/data/pause.txt')).output).toBe('third\nbefore');
  }

  /** Mounts outlive the host worker and end with the processes. Restarted processes need credentials. */
  async restartHostWorker(options: Partial<OciDriverOptions>): Promise<void> {
    const { slot, kept, anew } = this;
    const { host } = this.#parts();
    await this.withSandbox(anew(slot()), async (place, spec) => {
      await host.driver.close();
      await host.start(options);
      expect((await shell(place, spec, 'echo on > /mnt/data/on; cat /mnt/data/on')).output).toBe('on');
      await host.driver.stop(spec.sandboxId);
      expect((await host.inventory()).bucketProcesses).toEqual([]);
      await expect(host.driver.resume({ ...spec, storage: kept(slot()) })).rejects.toMatchObject({
        code: 'object_storage_credentials_required',
      });
      const blind = await host.driver.resume({ ...spec, storage: { ...kept(slot()), bestEffort: true } });
      expect(blind.slots).toEqual([slot({ state: 'disabled' })]);
      await host.driver.stop(spec.sandboxId);
      const back = await host.driver.resume({ ...spec, storage: anew(slot()) });
      expect((await shell(back, spec, 'cat /mnt/data/on')).output).toBe('on');
    });
  }
}
