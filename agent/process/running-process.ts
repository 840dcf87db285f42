import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import type { ProcessConfig, ProcessEventSchema } from '../proto/gen/sandboxagent_pb.js';
import type { Launched, ProcessExit } from './launch.ts';
import { Backlog, type Output } from './output.ts';
import { signalNumber, signalText } from './signals.ts';

export type ProcessEventInit = MessageInitShape<typeof ProcessEventSchema>;

/** A client that lags by this much stops the process's output from being read. */
const attachmentHighBytes = 512 * 1024;
/** Output kept of a process without a client. */
const backlogBytes = 1024 * 1024;
/** Input accepted but not yet read by the process. */
const stdinMaxBytes = 64 * 1024 * 1024;
/** How long the pipes of an ended process must be silent, when something else still holds them open. */
const silenceMs = 50;

/** One client's view of a process: what it has not taken yet, in order. */
export class Attachment {
  private readonly owner: RunningProcess;
  private queue: (Output | ProcessEventInit)[] = [];
  private wake: (() => void) | undefined;
  private closed = false;
  bytes = 0;

  constructor(owner: RunningProcess) {
    this.owner = owner;
  }

  push(item: Output | ProcessEventInit): void {
    this.queue.push(item);
    if ('bytes' in item) this.bytes += item.bytes.length;
    this.wake?.();
  }

  /** Ends the view; what it has not taken goes back to the process. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    const left = this.queue.filter((item): item is Output => 'bytes' in item);
    this.queue = [];
    this.wake?.();
    this.owner.detach(this, left);
  }

  /** Events to the process's end, a `keepalive` whenever there was none for `keepaliveMs`. */
  async *events(keepaliveMs: number): AsyncGenerator<ProcessEventInit> {
    while (true) {
      const item = this.queue.shift();
      if (item === undefined) {
        if (this.closed) return;
        if (!(await this.somethingWithin(keepaliveMs))) yield { event: { case: 'keepalive', value: {} } };
        continue;
      }
      if ('bytes' in item) {
        this.bytes -= item.bytes.length;
        this.owner.taken();
        yield { event: { case: 'data', value: { output: { case: item.channel, value: item.bytes } } } };
      } else {
        yield item;
        if (item.event?.case === 'end') return;
      }
    }
  }

  private somethingWithin(ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const done = (something: boolean) => {
        clearTimeout(timer);
        this.wake = undefined;
        resolve(something);
      };
      const timer = setTimeout(() => done(false), ms);
      this.wake = () => done(true);
    });
  }
}

/**
 * A process and its clients. Its output goes to every attached client, as slowly as the slowest takes it; without a
 * client it flows into a bounded backlog, so the process goes on. Ends when the process has ended and its output has
 * been read.
 */
export class RunningProcess {
  readonly pid: number;
  readonly config: ProcessConfig;
  readonly tag: string | undefined;
  private readonly launched: Launched;
  private readonly attachments = new Set<Attachment>();
  private readonly backlog = new Backlog(backlogBytes);
  private paused = false;
  private openOutputs: number;
  private exit: ProcessExit | undefined;
  private silence: NodeJS.Timeout | undefined;
  private readonly onEnd: () => void;
  private ended = false;

  constructor(launched: Launched, config: ProcessConfig, tag: string | undefined, onEnd: () => void) {
    this.launched = launched;
    this.pid = launched.pid;
    this.config = config;
    this.tag = tag;
    this.onEnd = onEnd;
    this.openOutputs = launched.outputs.length;
    launched.stdin.on('error', () => {
      // The process closed its input, or ended; whoever writes is told by the write's own callback.
    });
    for (const { channel, stream } of launched.outputs) {
      stream.on('data', (bytes: Buffer) => this.take({ channel, bytes }));
      // A terminal's other side gone reads as EIO.
      stream.on('error', () => stream.destroy());
      stream.once('close', () => {
        this.openOutputs -= 1;
        this.endIfDrained();
      });
    }
    launched.exited.then((exit) => {
      this.exit = exit;
      this.endIfDrained();
      this.watchSilence();
    });
  }

  /** A new client's view: what was kept while there was none, then what comes. */
  attach(): Attachment {
    const attachment = new Attachment(this);
    for (const piece of this.backlog.take()) attachment.push(piece);
    this.attachments.add(attachment);
    return attachment;
  }

  detach(attachment: Attachment, left: Output[]): void {
    if (!this.attachments.delete(attachment)) return;
    if (this.attachments.size === 0) for (const piece of left) this.backlog.add(piece);
    this.taken();
  }

  /** Called when a client has taken something: reads on when none lags any more. */
  taken(): void {
    if (!this.paused) return;
    for (const attachment of this.attachments) if (attachment.bytes > attachmentHighBytes / 2) return;
    this.paused = false;
    for (const { stream } of this.launched.outputs) stream.resume();
    this.watchSilence();
  }

  /** Sends a signal to the whole group. @throws {ConnectError} `not_found` when it has ended */
  signal(signal: NodeJS.Signals): void {
    try {
      process.kill(-this.pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      throw new ConnectError(`process ${this.pid} not found`, Code.NotFound);
    }
  }

  /** Resolves when the process's pipe has taken the input. @throws {ConnectError} when it takes none any more */
  write(bytes: Uint8Array): Promise<void> {
    const { stdin } = this.launched;
    if (stdin.writableLength + bytes.length > stdinMaxBytes) {
      throw new ConnectError(`process ${this.pid} does not read its input`, Code.ResourceExhausted);
    }
    return new Promise((resolve, reject) => {
      stdin.write(bytes, (error) => {
        if (error) reject(new ConnectError(`process ${this.pid} has closed its input`, Code.FailedPrecondition));
        else resolve();
      });
    });
  }

  private take(output: Output): void {
    if (this.ended) return;
    this.silence?.refresh();
    if (this.attachments.size === 0) {
      this.backlog.add(output);
      return;
    }
    let lagging = false;
    for (const attachment of this.attachments) {
      attachment.push(output);
      lagging ||= attachment.bytes > attachmentHighBytes;
    }
    if (lagging && !this.paused) {
      this.paused = true;
      clearTimeout(this.silence);
      this.silence = undefined;
      for (const { stream } of this.launched.outputs) stream.pause();
    }
  }

  private endIfDrained(): void {
    if (this.exit && this.openOutputs === 0) this.end();
  }

  /**
   * A process that left children behind with its pipes never reaches their end: once they are silent it counts as
   * ended, and what its children write later is read and dropped, so that they do not die of a broken pipe.
   */
  private watchSilence(): void {
    if (!this.exit || this.ended || this.paused || this.silence) return;
    this.silence = setTimeout(() => this.end(), silenceMs);
  }

  private end(): void {
    if (this.ended) return;
    this.ended = true;
    clearTimeout(this.silence);
    const { code, signal } = this.exit!;
    const text = signal ? signalText(signal) : `exit status ${code}`;
    const event: ProcessEventInit = {
      event: {
        case: 'end',
        value: {
          exitCode: signal ? 128 + signalNumber(signal) : code!,
          exited: signal === null,
          status: text,
          error: signal || code !== 0 ? text : undefined,
        },
      },
    };
    this.onEnd();
    for (const attachment of this.attachments) attachment.push(event);
  }
}
