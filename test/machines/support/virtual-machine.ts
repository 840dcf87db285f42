import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/until.ts';
import { emulator } from './emulator.ts';
import type { MachineImage } from './machine-image.ts';

const run = promisify(execFile);

/** The end of a command's output that an error shows. */
const shownCharacters = 20_000;

const emulated = {
  x64: { program: 'qemu-system-x86_64', options: ['-cpu', 'max'], console: 'ttyS0' },
  // With the processor's own signatures of pointers, an emulated machine is several times slower.
  arm64: {
    program: 'qemu-system-aarch64',
    options: ['-machine', 'virt', '-cpu', 'max,pauth-impdef=on'],
    console: 'ttyAMA0',
  },
};

export interface MachineOptions {
  image: MachineImage;
  /** Fills the folder that becomes the second disk. */
  fill: (folder: string) => Promise<void>;
  memoryMb?: number;
  /** Further words of the kernel's command line. */
  kernelOptions?: string;
}

/**
 * A machine of its own, emulated by QEMU, with its own kernel and systemd. What it writes to its disks is lost when it
 * ends, but not when it boots again. Commands reach it over SSH at a port of loopback.
 */
export class VirtualMachine {
  readonly #folder: string;
  readonly #options: MachineOptions;
  #port = 0;
  #qemu: ChildProcess | null = null;

  private constructor(options: MachineOptions) {
    this.#options = options;
    this.#folder = fs.mkdtempSync(path.join(os.tmpdir(), 'virtual-machine-'));
  }

  static async boot(options: MachineOptions): Promise<VirtualMachine> {
    const machine = new VirtualMachine(options);
    try {
      await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', machine.#file('key')]);
      await machine.#makeFilesDisk();
      // Its own disk holds what it writes, on top of the image.
      const [command, ...words] = await emulator(options.image.architecture);
      const create = ['create', '-q', '-f', 'qcow2', '-b', options.image.disk, '-F', 'raw', machine.#file('root')];
      await run(command!, [...words, 'qemu-img', ...create]);
      await machine.#start();
    } catch (error) {
      await machine.close();
      throw error;
    }
    return machine;
  }

  /**
   * Runs a shell script as root.
   * @returns both streams of its output
   * @throws {Error} with the end of its output when its status is not 0
   */
  async run(script: string): Promise<string> {
    const { status, output } = await this.try(script);
    if (status !== 0) throw new Error(`status ${status} of: ${script}\n${output.slice(-shownCharacters)}`);
    return output;
  }

  /** Runs a shell script as root, which may fail. */
  async try(script: string): Promise<{ status: number | null; output: string }> {
    const child = spawn('ssh', [...this.#sshArgs(), 'root@127.0.0.1', `exec 2>&1; ${script}`]);
    const chunks: Buffer[] = [];
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    const [status] = await once(child, 'close');
    return { status, output: Buffer.concat(chunks).toString() };
  }

  /** What the machine has printed on its console. */
  console(): string {
    return fs.readFileSync(this.#file('console'), 'utf8');
  }

  /** Ends it as a power cut does, and boots it again. */
  async cutPower(): Promise<void> {
    await this.#end();
    await this.#start();
  }

  /** Asks its system to shut down, and boots it again. */
  async reboot(): Promise<void> {
    await this.try('systemctl poweroff');
    if (this.#qemu?.exitCode === null) await once(this.#qemu, 'exit');
    await this.#start();
  }

  async close(): Promise<void> {
    await this.#end();
    fs.rmSync(this.#folder, { recursive: true, force: true });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #file(name: string): string {
    return path.join(this.#folder, name);
  }

  /** By a mount, because `mke2fs -d` loses the parts of a second in the times of files. */
  async #makeFilesDisk(): Promise<void> {
    const [disk, mounted] = [this.#file('files'), this.#file('mounted')];
    fs.mkdirSync(mounted);
    await run('truncate', ['--size=12G', disk]);
    await run('mke2fs', ['-q', '-F', '-t', 'ext4', '-m', '0', disk]);
    await run('mount', ['-o', 'loop', disk, mounted]);
    try {
      fs.copyFileSync(this.#file('key.pub'), path.join(mounted, 'authorized_keys'));
      await this.#options.fill(mounted);
    } finally {
      await run('umount', [mounted]);
    }
  }

  async #start(): Promise<void> {
    const { image, memoryMb = 4096, kernelOptions = '' } = this.#options;
    this.#port = await freePort();
    const machine = emulated[image.architecture];
    const isEmulated = image.architecture !== process.arch || !process.env.TEST_MACHINE_ACCELERATOR;
    const accelerator = isEmulated ? 'tcg,thread=multi' : process.env.TEST_MACHINE_ACCELERATOR!;
    const disk = (file: string, format: string) => ['-drive', `file=${file},format=${format},if=virtio,cache=unsafe`];
    const args = [
      ...['-accel', accelerator, ...machine.options, '-smp', '2', '-m', String(memoryMb)],
      ...disk(this.#file('root'), 'qcow2'),
      ...disk(this.#file('files'), 'raw'),
      ...['-kernel', image.kernel, '-initrd', image.initrd],
      ...['-append', `root=/dev/vda rw console=${machine.console} panic=-1 mitigations=off ${kernelOptions}`],
      ...['-netdev', `user,id=net,hostfwd=tcp:127.0.0.1:${this.#port}-:22`],
      ...['-device', 'virtio-net-pci,netdev=net,romfile='],
      ...['-device', 'virtio-rng-pci', '-display', 'none', '-serial', `file:${this.#file('console')}`, '-no-reboot'],
    ];
    // It ends with the test.
    const program = [...(await emulator(image.architecture)), machine.program];
    const qemu = spawn('setpriv', ['--pdeathsig', 'KILL', ...program, ...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#qemu = qemu;
    let complaint = '';
    qemu.stderr.on('data', (chunk) => {
      complaint += chunk;
    });
    await until(
      async () => {
        if (qemu.exitCode !== null) throw new Error(`the machine ended: ${complaint}\n${this.console().slice(-2000)}`);
        return (await this.try('true')).status === 0;
      },
      600_000,
      1000,
    );
  }

  async #end(): Promise<void> {
    if (!this.#qemu || this.#qemu.exitCode !== null || this.#qemu.signalCode !== null) return;
    const ended = once(this.#qemu, 'exit');
    this.#qemu.kill('SIGKILL');
    await ended;
  }

  /** Commands share one connection, because an emulated machine takes seconds to open one. */
  #sshArgs(): string[] {
    const options = [
      `ControlPath=${this.#file('ssh')}`,
      'ControlMaster=auto',
      'ControlPersist=10',
      'StrictHostKeyChecking=no',
      'UserKnownHostsFile=/dev/null',
      'LogLevel=ERROR',
      'ConnectTimeout=60',
      'ServerAliveInterval=60',
    ];
    return [
      '-F',
      '/dev/null',
      '-i',
      this.#file('key'),
      '-p',
      `${this.#port}`,
      ...options.flatMap((each) => ['-o', each]),
    ];
  }
}
