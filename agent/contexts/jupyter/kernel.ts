import { StringDecoder } from 'node:string_decoder';
import { displayEvent, type ExecutionOutput, type Representations } from '../execution-output.ts';
import { type Execution, type Kernel, kernelDied, type Outcome } from '../kernel.ts';
import { type KernelProcess, pipesRead } from '../kernel-process.ts';
import { type MimeBundle, representations } from '../representations.ts';
import type { KernelConnection } from './connection.ts';
import type { JupyterMessage } from './messages.ts';

const lateReplyMs = 1000;
const repeatMs = 500;

/** The differences between kernels of different languages. */
export interface KernelTraits {
  language: string;
  /** `message`: the kernel is interrupted by a request and not by a signal. */
  interruptMode: 'signal' | 'message';
  /**
   * Code that sets and restores variables around an execution. Undefined: the kernel takes them from the request's
   * metadata.
   */
  environmentCode?: (envVars: Record<string, string>) => { before: string; after: string };
  /** The kernel publishes the value of an execution as its last display. */
  valueIsLastDisplay: boolean;
  /** The process's own output is output of the code, and not only an explanation of the process's end. */
  processOutputIsCode: boolean;
}

/** The state of the current execution. */
interface ExecutionState {
  readonly id: string;
  readonly execution: Execution;
  readonly output: ExecutionOutput;
  main: Representations | undefined;
  executionCount: number | undefined;
  error: { name: string; value: string; traceback: string } | undefined;
  /** A display that may become the value. */
  held: Representations | undefined;
  /** The kernel has begun the code. An earlier interrupt would be lost. */
  begun: boolean;
  interrupted: boolean;
  replied: boolean;
  idle: boolean;
  readonly finish: () => void;
}

/** A kernel with the Jupyter protocol: ipykernel, IRkernel, a Java kernel. */
export class JupyterKernel implements Kernel {
  readonly #process: KernelProcess;
  readonly #connection: KernelConnection;
  readonly #traits: KernelTraits;
  #current: ExecutionState | undefined;
  #lost = false;

  constructor(process: KernelProcess, connection: KernelConnection, traits: KernelTraits) {
    this.#process = process;
    this.#connection = connection;
    this.#traits = traits;
    connection.onShell = (message) => this.#receiveReply(message);
    connection.onPublished = (message) => this.#receivePublished(message);
    connection.onLost = () => this.#lose();
    void process.exited.then(() => this.#lose());
    const { stdout, stderr } = process.child;
    if (traits.processOutputIsCode) {
      this.#forward('stdout', stdout!);
      this.#forward('stderr', stderr!);
    } else stdout?.resume();
    if (stderr) process.keepLastWords(stderr);
  }

  async execute(execution: Execution, output: ExecutionOutput): Promise<Outcome> {
    output.onFlow((flowing) => this.#setFlowing(flowing));
    try {
      const around = this.#traits.environmentCode?.(execution.envVars);
      if (around?.before) await this.#request(around.before, true, execution, output);
      const state = await this.#request(execution.code, false, execution, output);
      if (around?.after && !this.#lost) await this.#request(around.after, true, execution, output);
      return this.#outcome(state);
    } finally {
      output.onFlow(undefined);
      this.#setFlowing(true);
    }
  }

  interrupt(): void {
    if (this.#current) this.#current.interrupted = true;
    if (!this.#current || this.#current.begun) this.#sendInterrupt();
  }

  #sendInterrupt(): void {
    if (this.#traits.interruptMode === 'signal') {
      this.#process.signalGroup('SIGINT');
      return;
    }
    this.#connection.request('control', 'interrupt_request', {});
    // A kernel that runs statement by statement misses an interrupt between two statements.
    const state = this.#current;
    setTimeout(() => {
      if (state && this.#current === state) this.#sendInterrupt();
    }, repeatMs);
  }

  kill(): void {
    this.#process.signalGroup('SIGKILL');
  }

  async close(): Promise<void> {
    await this.#process.close();
    this.#connection.close();
  }

  async #request(
    code: string,
    silent: boolean,
    execution: Execution,
    output: ExecutionOutput,
  ): Promise<ExecutionState> {
    return new Promise((resolve) => {
      const content = {
        code,
        silent,
        store_history: !silent,
        user_expressions: {},
        allow_stdin: false,
        stop_on_error: false,
      };
      const metadata = this.#traits.environmentCode
        ? {}
        : { env_vars: execution.envVars, wants_data: execution.wantsData, wants_json: execution.wantsJson };
      const state: ExecutionState = {
        id: this.#lost ? '' : this.#connection.request('shell', 'execute_request', content, metadata),
        execution,
        output,
        main: undefined,
        executionCount: undefined,
        error: undefined,
        held: undefined,
        begun: false,
        interrupted: false,
        replied: false,
        idle: false,
        finish: () => {
          this.#current = undefined;
          resolve(state);
        },
      };
      this.#current = state;
      if (this.#lost) state.finish();
    });
  }

  #outcome(state: ExecutionState): Outcome {
    if (!state.idle || !state.replied) {
      const how = this.#process.ending ?? 'it closed its sockets';
      return { ok: false, error: kernelDied(this.#traits.language, how, this.#process.lastWords) };
    }
    if (state.error) return { ok: false, error: state.error, executionCount: state.executionCount };
    const value = state.main ?? state.held ?? {};
    return { ok: true, exitCode: 0, value, executionCount: state.executionCount };
  }

  #receiveReply({ type, parentId, content }: JupyterMessage): void {
    const state = this.#current;
    if (!state || type !== 'execute_reply' || parentId !== state.id) return;
    state.replied = true;
    if (typeof content.execution_count === 'number') state.executionCount = content.execution_count;
    if (content.status !== 'ok') {
      state.error ??= toRunError({ ename: content.status, evalue: 'the kernel did not run the code', ...content });
    }
    for (const payload of asArray(content.payload)) {
      // The reply to a request for help with `?` is a page.
      if (payload.source === 'page') this.#display(state, { ...(payload.data as MimeBundle) });
    }
    if (state.idle) state.finish();
  }

  #receivePublished({ type, parentId, content }: JupyterMessage): void {
    const state = this.#current;
    if (!state) return;
    if (type === 'execute_input' && parentId === state.id) {
      state.begun = true;
      if (state.interrupted) this.#sendInterrupt();
    }
    switch (type) {
      case 'stream':
        // Threads of earlier executions also write. Their output is sent while an execution is in progress.
        this.#publishHeld(state);
        state.output.write(content.name === 'stderr' ? 'stderr' : 'stdout', String(content.text));
        return;
      case 'display_data':
      case 'update_display_data':
        this.#display(state, content.data as MimeBundle);
        return;
    }
    if (type.endsWith('_too_large')) state.output.write('stderr', 'an output of more than 256 MiB was left out\n');
    if (parentId !== state.id) return;
    if (type === 'execute_result') state.main = representations(content.data as MimeBundle);
    else if (type === 'error') state.error = toRunError(content);
    else if (type === 'status' && content.execution_state === 'idle') {
      state.idle = true;
      if (state.replied) state.finish();
      else if (state.interrupted) this.#finishWithoutReply(state);
    }
  }

  /**
   * If an interrupt hits the kernel's own code instead of the execution's, the kernel sends no reply to the request.
   */
  #finishWithoutReply(state: ExecutionState): void {
    setTimeout(() => {
      if (this.#current !== state) return;
      state.replied = true;
      state.error ??= { name: 'KeyboardInterrupt', value: 'the run was interrupted', traceback: '' };
      state.finish();
    }, lateReplyMs);
  }

  #display(state: ExecutionState, data: MimeBundle): void {
    this.#publishHeld(state);
    const shown = representations(data);
    if (this.#traits.valueIsLastDisplay) state.held = shown;
    else state.output.push(displayEvent(shown, state.execution));
  }

  #publishHeld(state: ExecutionState): void {
    if (state.held) state.output.push(displayEvent(state.held, state.execution));
    state.held = undefined;
  }

  #forward(name: 'stdout' | 'stderr', stream: NodeJS.ReadableStream): void {
    const decoder = new StringDecoder('utf8');
    stream.on('data', (chunk: Buffer) => this.#current?.output.write(name, decoder.write(chunk)));
  }

  #setFlowing(flowing: boolean): void {
    this.#connection.setFlowing(flowing);
    if (!this.#traits.processOutputIsCode) return;
    for (const stream of [this.#process.child.stdout!, this.#process.child.stderr!]) {
      if (flowing) stream.resume();
      else stream.pause();
    }
  }

  /** The process ended or closed a channel. A kernel without all channels is useless. */
  #lose(): void {
    if (this.#lost) return;
    this.#lost = true;
    this.#process.signalGroup('SIGKILL');
    void this.#process.exited.then(async () => {
      const state = this.#current;
      if (!state) return;
      do {
        await state.output.drained();
        await pipesRead();
      } while (state.output.isFull);
      if (this.#current === state) state.finish();
    });
  }
}

function toRunError(content: Record<string, unknown>): ExecutionState['error'] {
  const traceback = Array.isArray(content.traceback) ? content.traceback.join('\n') : String(content.traceback ?? '');
  return {
    name: String(content.ename ?? 'Error'),
    value: withoutColours(String(content.evalue ?? '')),
    traceback: withoutColours(traceback),
  };
}

function withoutColours(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: terminal escape sequences begin with one
  return text.replaceAll(/\u001b\[[0-9;]*m/g, '');
}

function asArray(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value : [];
}
