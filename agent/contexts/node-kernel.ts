import path from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import { parseExactly } from './exact-json.ts';
import { displayEvent, type ExecutionError } from './execution-output.ts';
import { FrameReader } from './frames.ts';
import type { Execution, KernelStart } from './kernel.ts';
import { type KernelProcess, pipesRead } from './kernel-process.ts';
import { type MimeBundle, representations } from './representations.ts';
import { type CurrentExecution, ScriptKernel, type ScriptPipes, startScript } from './script-kernel.ts';

/** If the script takes longer than this to answer, its code counts as busy. */
const busyMs = 100;
/**
 * One signal is enough, unless it came before the code. Node ends at a signal that comes just after the code that it
 * interrupts, and on a busy machine that end is known late.
 */
const repeatMs = 1000;

/** A message frame of the script. */
type Message =
  | { type: 'ready' }
  | { type: 'display'; data: MimeBundle }
  | { type: 'done'; value: MimeBundle; exitCode: number; error?: undefined }
  | { type: 'done'; error: ExecutionError };

/** JavaScript or TypeScript in its own Node process, which runs `kernels/node_kernel.mjs`. */
export class NodeKernel extends ScriptKernel {
  readonly #typescript: boolean;
  readonly #frames = new FrameReader();
  readonly #stdout = new StringDecoder('utf8');
  readonly #stderr = new StringDecoder('utf8');
  #resolveReady: () => void = () => {};

  /** @throws {ConnectError} `failed_precondition` or `resource_exhausted` when it does not start */
  static async start(language: 'javascript' | 'typescript', start: KernelStart): Promise<NodeKernel> {
    const command = [start.node, '--disable-warning=ExperimentalWarning', path.join(start.scripts, 'node_kernel.mjs')];
    const { process, pipes } = await startScript(command, start);
    process.keepLastWords(pipes.stderr);
    const kernel = new NodeKernel(language, process, pipes);
    const kill = () => kernel.kill();
    start.signal.addEventListener('abort', kill);
    const failed = kernel.process.exited.then(async () => {
      await pipesRead();
      start.signal.throwIfAborted();
      throw kernel.process.startFailure(language, kernel.process.lastWords);
    });
    try {
      const ready = new Promise<void>((resolve) => {
        kernel.#resolveReady = resolve;
      });
      await Promise.race([ready, failed]);
      return kernel;
    } catch (error) {
      await kernel.close();
      throw error;
    } finally {
      failed.catch(() => {}); // From now on the executions report the end of the process.
      start.signal.removeEventListener('abort', kill);
    }
  }

  private constructor(language: 'javascript' | 'typescript', process: KernelProcess, pipes: ScriptPipes) {
    super(language, process, pipes);
    this.#typescript = language === 'typescript';
  }

  protected request({ code, envVars, count }: Execution): string {
    return `${JSON.stringify({ code, typescript: this.#typescript, envVars, count })}\n`;
  }

  /** The script itself ends code that awaits. Signals end code that keeps the script busy. */
  protected stop(current: CurrentExecution): void {
    this.pipes.requests.write(`${JSON.stringify({ interrupt: current.execution.count })}\n`);
    this.signalUntilEnded(current, busyMs, repeatMs);
  }

  protected receive(chunk: Buffer): void {
    for (const { type, payload } of this.#frames.push(chunk)) {
      if (type === 1) this.current?.output.write('stdout', this.#stdout.write(payload));
      else if (type === 2) this.current?.output.write('stderr', this.#stderr.write(payload));
      else this.#receiveMessage(parseExactly(payload.toString('utf8')) as Message);
    }
  }

  #receiveMessage(message: Message): void {
    if (message.type === 'ready') this.#resolveReady();
    else if (message.type === 'display') {
      if (this.current) this.current.output.push(displayEvent(representations(message.data), this.current.execution));
    } else if (message.error) this.current?.finish({ ok: false, error: message.error });
    else this.current?.finish({ ok: true, exitCode: message.exitCode, value: representations(message.value) });
  }
}
