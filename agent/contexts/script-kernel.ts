import fs from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import type { ExecutionOutput } from './execution-output.ts';
import { type Execution, type Kernel, type KernelStart, kernelDied, type Outcome } from './kernel.ts';
import { KernelProcess, makeKernelFolder, makeOutputPipes, type OutputPipes, pipesRead } from './kernel-process.ts';

/** An execution in progress. */
export interface CurrentExecution {
  readonly execution: Execution;
  readonly output: ExecutionOutput;
  /** Whether the execution was asked to stop. */
  interrupted: boolean;
  /** Ends the execution when the kernel's pipes have been read. */
  finish(outcome: Outcome): void;
}

/** The pipes to a kernel that is one of the scripts in `kernels/`. */
export interface ScriptPipes {
  /** The output of the script's code and of its subprocesses. */
  stdout: Readable;
  stderr: Readable;
  /** The script's reports on its executions. */
  replies: Readable;
  requests: Writable;
}

/**
 * Starts `command`, with the kernel's folder as its last argument, and opens the pipes to it: descriptor 3 for replies,
 * 4 for requests.
 */
export async function startScript(
  command: string[],
  start: KernelStart,
): Promise<{ process: KernelProcess; pipes: ScriptPipes }> {
  const folder = makeKernelFolder();
  let outputs: OutputPipes | undefined;
  try {
    outputs = await makeOutputPipes(folder, start.searchPath);
    const [stdout, stderr] = outputs?.writeFds ?? (['pipe', 'pipe'] as const);
    const process = new KernelProcess([...command, folder], {
      cwd: start.cwd,
      env: start.env,
      stdio: ['ignore', stdout, stderr, 'pipe', 'pipe'],
      folder,
    });
    const { child } = process;
    const pipes: ScriptPipes = {
      stdout: outputs?.stdout ?? child.stdout!,
      stderr: outputs?.stderr ?? child.stderr!,
      replies: child.stdio[3] as Readable,
      requests: child.stdio[4] as Writable,
    };
    return { process, pipes };
  } catch (error) {
    outputs?.stdout.destroy();
    outputs?.stderr.destroy();
    await fs.promises.rm(folder, { recursive: true, force: true });
    throw error;
  } finally {
    for (const fd of outputs?.writeFds ?? []) fs.closeSync(fd);
  }
}

/** The common part of kernels that run a script of this project. Their protocols differ. */
export abstract class ScriptKernel implements Kernel {
  protected readonly process: KernelProcess;
  protected readonly pipes: ScriptPipes;
  protected current: CurrentExecution | undefined;
  readonly #language: string;

  constructor(language: string, process: KernelProcess, pipes: ScriptPipes) {
    this.#language = language;
    this.process = process;
    this.pipes = pipes;
    // A request to a kernel that has just died fails. The end of its process is reported separately.
    pipes.requests.on('error', () => {});
    this.#forward('stdout', pipes.stdout);
    this.#forward('stderr', pipes.stderr);
    pipes.replies.on('data', (chunk: Buffer) => this.receive(chunk));
    void process.exited.then(async () => {
      await pipesRead();
      this.current?.finish(this.#died());
    });
  }

  execute(execution: Execution, output: ExecutionOutput): Promise<Outcome> {
    if (this.process.ending !== undefined) return Promise.resolve(this.#died());
    return new Promise((resolve) => {
      this.current = {
        execution,
        output,
        interrupted: false,
        finish: async (outcome) => {
          // While the reader of the output is behind, the pipes are not read.
          do {
            await output.drained();
            await pipesRead();
          } while (output.isFull);
          this.current = undefined;
          output.onFlow(undefined);
          this.#setFlowing(true);
          resolve(outcome);
        },
      };
      output.onFlow((flowing) => this.#setFlowing(flowing));
      this.pipes.requests.write(this.request(execution));
    });
  }

  interrupt(): void {
    if (!this.current) return;
    this.current.interrupted = true;
    this.stop(this.current);
  }

  kill(): void {
    this.process.signalGroup('SIGKILL');
  }

  async close(): Promise<void> {
    await this.process.close();
    // A process that left the group may hold the other ends open.
    for (const pipe of Object.values(this.pipes)) pipe.destroy();
  }

  /** The message that asks the script to run the code of `execution`. */
  protected abstract request(execution: Execution): Buffer | string;

  /** Processes the next bytes from the script. */
  protected abstract receive(chunk: Buffer): void;

  /** Makes the script end the execution. */
  protected abstract stop(current: CurrentExecution): void;

  /** Interrupts the process group after `delayMs`, and then every `repeatMs` until the execution has ended. */
  protected signalUntilEnded(current: CurrentExecution, delayMs: number, repeatMs: number): void {
    setTimeout(() => {
      if (this.current !== current) return;
      this.process.signalGroup('SIGINT');
      this.signalUntilEnded(current, repeatMs, repeatMs);
    }, delayMs);
  }

  /** A description of the process's end, for a kernel that died. */
  protected ending(): string {
    return this.process.ending ?? '';
  }

  #died(): Outcome {
    return { ok: false, error: kernelDied(this.#language, this.ending(), this.process.lastWords) };
  }

  #forward(name: 'stdout' | 'stderr', stream: Readable): void {
    const decoder = new StringDecoder('utf8');
    stream.on('data', (chunk: Buffer) => this.current?.output.write(name, decoder.write(chunk)));
  }

  #setFlowing(flowing: boolean): void {
    const { stdout, stderr, replies } = this.pipes;
    for (const source of [stdout, stderr, replies]) {
      if (flowing) source.resume();
      else source.pause();
    }
  }
}
