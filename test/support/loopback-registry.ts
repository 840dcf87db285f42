import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { imageFolder } from '../../runtime/images/image-cache.ts';
import { cacheDir } from '../runtime/local-host.ts';
import { freePort } from './free-port.ts';
import { until } from './until.ts';

/** A real registry on loopback. It stores pushed images in a folder of the test. */
export class LoopbackRegistry {
  /** Host and port, as used in references. */
  readonly address: string;
  readonly #stop: () => Promise<void>;

  private constructor(address: string, stop: () => Promise<void>) {
    this.address = address;
    this.#stop = stop;
  }

  static async start(folder: string): Promise<LoopbackRegistry> {
    const address = `127.0.0.1:${await freePort()}`;
    const config = path.join(folder, 'registry.yml');
    writeFileSync(
      config,
      `version: 0.1\nstorage: { filesystem: { rootdirectory: ${folder}/registry } }\nhttp: { addr: ${address} }\n`,
    );
    const server = spawn('docker-registry', ['serve', config], { stdio: 'ignore' });
    const ended = once(server, 'close');
    const answers = () =>
      fetch(`http://${address}/v2/`).then(
        (reply) => reply.ok,
        () => false,
      );
    await until(answers);
    return new LoopbackRegistry(address, async () => {
      server.kill();
      await ended;
    });
  }

  stop(): Promise<void> {
    return this.#stop();
  }
}

/** Removes an image that hosts of tests unpacked into the machine's cache. */
export function forgetImage(digest: string): void {
  const unpacked = imageFolder(cacheDir(), digest);
  for (const left of [unpacked, `${unpacked}.lock`]) rmSync(left, { recursive: true, force: true });
}
