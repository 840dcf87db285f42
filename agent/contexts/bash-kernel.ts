import fs from 'node:fs';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { Code, ConnectError } from '@connectrpc/connect';
import type { KernelStart, Run } from './kernel.ts';
import { findExecutable, KernelProcess, makeKernelFolder, makePipe, type OutputPipe } from './kernel-process.ts';
import { type CurrentRun, ScriptKernel } from './script-kernel.ts';

/** A bash that keeps its state between runs, kept by `kernels/bash_kernel.bash`. */
export class BashKernel extends ScriptKernel {
  private text = '';
  /** The code of the current run has begun: a signal before is lost. */
  private begun = false;

  /** @throws {ConnectError} `failed_precondition` where there is no bash */
  static async start({ cwd, env, scripts }: KernelStart): Promise<BashKernel> {
    const bash = findExecutable('bash', env);
    const mkfifo = findExecutable('mkfifo', env);
    if (!bash || !mkfifo) {
      const missing = bash ? 'mkfifo: install the package coreutils' : 'bash: install the package bash';
      throw new ConnectError(`bash is not available for lack of ${missing}`, Code.FailedPrecondition);
    }
    const folder = makeKernelFolder();
    const outputs: OutputPipe[] = [];
    try {
      for (const name of ['stdout', 'stderr']) outputs.push(await makePipe(mkfifo, path.join(folder, name)));
      const process = new KernelProcess([bash, path.join(scripts, 'bash_kernel.bash'), folder], {
        cwd,
        env,
        stdio: ['ignore', outputs[0]!.writeFd, outputs[1]!.writeFd, 'pipe', 'pipe'],
        folder,
      });
      return new BashKernel(process, outputs[0]!.reader, outputs[1]!.reader);
    } catch (error) {
      for (const { reader } of outputs) reader.destroy();
      await fs.promises.rm(folder, { recursive: true, force: true });
      throw error;
    } finally {
      for (const { writeFd } of outputs) fs.closeSync(writeFd);
    }
  }

  private constructor(process: KernelProcess, stdout: Readable, stderr: Readable) {
    const { stdio } = process.child;
    super('bash', process, { stdout, stderr, replies: stdio[3] as Readable, requests: stdio[4] as Writable });
  }

  protected request({ code, envVars }: Run): Buffer {
    this.begun = false;
    const { before, after } = environmentCode(envVars);
    // Bash has no way to hold a NUL.
    const parts = [before, code.replaceAll('\0', ''), after].map((part) => Buffer.from(part));
    return Buffer.concat([Buffer.from(`${parts.map((part) => part.length).join(' ')}\n`), ...parts]);
  }

  /** With one signal alone, bash goes on when it comes as a command starts that then does not die of it. */
  protected stop(current: CurrentRun): void {
    if (this.begun) this.signalUntilEnded(current, 0);
  }

  protected receive(chunk: Buffer): void {
    const lines = (this.text + chunk.toString('latin1')).split('\n');
    this.text = lines.pop()!;
    for (const line of lines) {
      const [word, status] = line.split(' ');
      if (word === 'begun') {
        this.begun = true;
        if (this.current?.interrupted) this.stop(this.current);
      }
      // The end of a shell that died is told when the whole kernel has ended.
      else if (word !== 'died') this.current?.finish({ ok: true, exitCode: Number(status), value: {} });
    }
  }

  /** The script ends as its shell did: above 128, by a signal. */
  protected override ending(): string {
    const status = Number(/^exit code (\d+)$/.exec(super.ending())?.[1]);
    if (!(status > 128)) return super.ending();
    return `killed by ${status === 137 ? 'SIGKILL' : `signal ${status - 128}`}`;
  }
}

/** Sets variables for one run and puts back what was there. Names were checked to be ones that bash knows. */
function environmentCode(envVars: Record<string, string>): { before: string; after: string } {
  const before: string[] = [];
  const after: string[] = [];
  Object.entries(envVars).forEach(([name, value], index) => {
    const saved = `__sandbox_saved_${index}`;
    before.push(`${saved}=(\${${name}+set} "\${${name}-}"); export ${name}=${quote(value)}`);
    after.push(`if ((\${#${saved}[@]} == 2)); then ${name}=\${${saved}[1]}; else unset ${name}; fi; unset ${saved}`);
  });
  return { before: before.join('\n'), after: after.join('\n') };
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
