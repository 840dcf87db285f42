import fs from 'node:fs';
import net from 'node:net';
import { Code } from '@connectrpc/connect';
import type { ProcessConfig } from '../proto/gen/sandboxagent_pb.js';
import { ConnectError } from '../rpc/connect-error.ts';
import { Attachment, type Piece, type ProcessEventInit } from './attachment.ts';
import { Backlog, type Channel } from './backlog.ts';
import { type Launched, resizeTerminal } from './launch.ts';
import { OutputPipe } from './output-pipe.ts';
import type { ProcessExit } from './reaper.ts';
import { signalText } from './signals.ts';

/** Output up to this length is copied, so that the next output is read without a pause of the pipe. */
const copiedMaxBytes = 4 * 1024;
/** The maximum copied output that the clients of a process have not taken yet. */
const copiesMaxBytes = 64 * 1024;
/** The maximum output that is kept of a process without a client. */
const backlogBytes = 1024 * 1024;
/** The maximum input that the process has not read yet. */
const inputMaxBytes = 64 * 1024 * 1024;
/** How long the pipes of an ended process must be silent if another process still has them open. */
const silenceMs = 50;
/** How long the output of other processes can delay the end of a process whose own output has been read. */
const othersMs = 1000;
/** The longest time between two checks of a process group whose leader has ended. */
const groupCheckMaxMs = 5000;

/**
 * A process and its clients. Its output goes to every attached client, and more is read only when all of them have
 * taken it. So the slowest client slows the process. Without a client the output flows into a bounded backlog, so the
 * process continues.
 *
 * The process ends for its clients when it has exited and its output has been read. Its background processes may keep
 * its pipes open. `endsWith` determines what happens then: with `group` the end waits until the process group is gone,
 * with `leader` it comes as soon as the pipes are silent.
 */
export class RunningProcess {
  readonly pid: number;
  readonly config: ProcessConfig;
  readonly tag: string | undefined;
  readonly #launched: Launched;
  readonly #attachments = new Set<Attachment>();
  readonly #backlog = new Backlog(backlogBytes);
  readonly #outputs: OutputPipe[];
  #input: net.Socket | undefined;
  #waitingInput = 0;
  #openOutputs: number;
  /** The bytes that were in its pipes when it exited and have not been read yet. */
  readonly #unreadAtExit = new Map<OutputPipe, number>();
  #exitedAtMs = 0;
  #heldPieces = 0;
  #copiedBytes = 0;
  #exit: ProcessExit | undefined;
  #silence: NodeJS.Timeout | undefined;
  #groupCheckMs = silenceMs;
  readonly #endsWith: 'group' | 'leader';
  readonly #onEnd: () => void;
  #endEvent: ProcessEventInit | undefined;

  constructor(
    launched: Launched,
    config: ProcessConfig,
    tag: string | undefined,
    endsWith: 'group' | 'leader',
    onEnd: () => void,
  ) {
    this.#launched = launched;
    this.#endsWith = endsWith;
    this.pid = launched.pid;
    this.config = config;
    this.tag = tag;
    this.#onEnd = onEnd;
    const { terminal, stdout, stderr } = launched;
    this.#outputs =
      terminal === undefined
        ? [this.#read(stdout!, 'stdout'), this.#read(stderr!, 'stderr')]
        : [this.#read(terminal, 'pty')];
    this.#openOutputs = this.#outputs.length;
    launched.exited.then((exit) => {
      this.#exit = exit;
      this.#exitedAtMs = performance.now();
      if (terminal === undefined) for (const pipe of this.#outputs) this.#unreadAtExit.set(pipe, pipe.waitingBytes);
      this.#endIfDrained();
      this.#watchSilence();
    });
  }

  get ended(): boolean {
    return this.#endEvent !== undefined;
  }

  /** The bytes of output that no client has taken yet. */
  get untakenBytes(): number {
    return this.#backlog.bytes;
  }

  /** A new client's view: the output kept while there was no client, then new output, then the end. */
  attach(): Attachment {
    const attachment: Attachment = new Attachment((untaken) => this.#detach(attachment, untaken));
    for (const { channel, bytes } of this.#backlog.take()) attachment.push({ channel, bytes, release: () => {} });
    this.#attachments.add(attachment);
    if (this.#endEvent) attachment.finish(this.#endEvent);
    return attachment;
  }

  /** Sends a signal to the process's whole group. @throws {ConnectError} `not_found` when it has ended */
  signal(signal: number): void {
    try {
      process.kill(-this.pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      throw new ConnectError(`process ${this.pid} not found`, Code.NotFound);
    }
  }

  /** Ends the process's whole group, if it still exists. */
  kill(): void {
    try {
      process.kill(-this.pid, 'SIGKILL');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }

  /** @throws {ConnectError} `failed_precondition` when it has no terminal, `invalid_argument` for an impossible size */
  resize(columns: number, rows: number): void {
    if (this.#launched.terminal === undefined) {
      throw new ConnectError(`process ${this.pid} has no terminal`, Code.FailedPrecondition);
    }
    if (!this.ended) resizeTerminal(this.#launched.terminal, columns, rows);
  }

  /**
   * Writes input to the process. Resolves when its pipe has taken the input.
   * @throws {ConnectError} `failed_precondition` for the wrong kind of input, or when the process no longer accepts
   * input
   */
  async write(kind: 'stdin' | 'pty', bytes: Uint8Array): Promise<void> {
    const terminal = this.#launched.terminal !== undefined;
    if (terminal !== (kind === 'pty')) {
      const wanted = terminal ? 'has a terminal: send pty' : 'has no terminal: send stdin';
      throw new ConnectError(`process ${this.pid} ${wanted}`, Code.FailedPrecondition);
    }
    if (!terminal && this.#launched.stdin === undefined) {
      throw new ConnectError(`process ${this.pid} was started without input`, Code.FailedPrecondition);
    }
    if (this.#waitingInput + bytes.length > inputMaxBytes) {
      throw new ConnectError(`process ${this.pid} does not read its input`, Code.ResourceExhausted);
    }
    this.#waitingInput += bytes.length;
    await new Promise<void>((resolve, reject) => {
      const done = (error?: Error | null) => {
        this.#waitingInput -= bytes.length;
        if (!error) resolve();
        else reject(new ConnectError(`process ${this.pid} has closed its input`, Code.FailedPrecondition));
      };
      if (terminal) this.#outputs[0]!.write(bytes, done);
      else this.#stdin().write(bytes, done);
    });
  }

  /**
   * Ends its input after everything that was written. Succeeds if the input has ended before.
   * @throws {ConnectError} `failed_precondition` when it has a terminal
   */
  async closeStdin(): Promise<void> {
    if (this.#launched.terminal !== undefined) {
      throw new ConnectError(`process ${this.pid} has a terminal: send 0x04 as pty`, Code.FailedPrecondition);
    }
    if (this.#launched.stdin === undefined) return;
    const stdin = this.#stdin();
    if (!stdin.destroyed) await new Promise<void>((resolve) => stdin.once('close', () => resolve()).end());
  }

  #stdin(): net.Socket {
    if (this.#input) return this.#input;
    this.#input = new net.Socket({ fd: this.#launched.stdin!, readable: false, writable: true });
    this.#input.on('error', () => {
      // The process has closed its input. The write itself fails with that error, so its caller gets it.
    });
    return this.#input;
  }

  #read(fd: number, channel: Channel): OutputPipe {
    const pipe: OutputPipe = new OutputPipe(
      fd,
      channel === 'pty',
      (bytes) => this.#take(pipe, channel, bytes),
      () => {
        this.#openOutputs -= 1;
        this.#endIfDrained();
      },
    );
    return pipe;
  }

  /** Returns true when more may be read at once. */
  #take(pipe: OutputPipe, channel: Channel, bytes: Buffer): boolean {
    if (this.#endEvent) return true;
    if (this.#isOverdue()) {
      this.#end();
      return true;
    }
    const unread = this.#unreadAtExit.get(pipe);
    if (unread !== undefined) this.#unreadAtExit.set(pipe, unread - bytes.length);
    this.#silence?.refresh();
    if (this.#attachments.size === 0) {
      this.#backlog.add(channel, bytes);
      return true;
    }
    let holders = this.#attachments.size;
    const isCopied = bytes.length <= copiedMaxBytes && this.#copiedBytes + bytes.length <= copiesMaxBytes;
    if (isCopied) this.#copiedBytes += bytes.length;
    else this.#heldPieces += 1;
    const release = () => {
      holders -= 1;
      if (holders > 0) return;
      if (isCopied) {
        this.#copiedBytes -= bytes.length;
        return;
      }
      this.#heldPieces -= 1;
      pipe.resume();
      this.#watchSilence();
    };
    const piece = { channel, bytes: isCopied ? Buffer.from(bytes) : bytes, release };
    for (const attachment of this.#attachments) attachment.push(piece);
    return isCopied;
  }

  #detach(attachment: Attachment, untaken: Piece[]): void {
    this.#attachments.delete(attachment);
    for (const piece of untaken) {
      if (this.#attachments.size === 0) this.#backlog.add(piece.channel, piece.bytes);
      piece.release();
    }
  }

  /** Whether processes that do not count have written for so long that the pipes may never be silent. */
  #isOverdue(): boolean {
    if (!this.#exit || performance.now() - this.#exitedAtMs < othersMs) return false;
    if (this.#unreadAtExit.size === 0 || [...this.#unreadAtExit.values()].some((bytes) => bytes > 0)) return false;
    return this.#endsWith === 'leader' || !groupExists(this.pid);
  }

  #endIfDrained(): void {
    if (this.#exit && this.#openOutputs === 0) this.#end();
  }

  /**
   * Ends a process whose pipes are kept open by processes that do not count: daemons outside its group, or, with
   * `leader`, its whole group. Later output of those processes is read and dropped, so that they do not die of a broken
   * pipe.
   */
  #watchSilence(): void {
    if (!this.#exit || this.#endEvent) return;
    clearTimeout(this.#silence);
    this.#silence = undefined;
    if (this.#heldPieces > 0) return;
    this.#silence = setTimeout(() => {
      if (this.#endsWith === 'group' && groupExists(this.pid)) {
        // The kernel reports the end of the pipes but not of a group, and a background service may live for hours.
        this.#groupCheckMs = Math.min(this.#groupCheckMs * 2, groupCheckMaxMs);
        this.#watchSilence();
      }
      // A busy event loop may read late, which is not silence.
      else if (this.#outputs.every((output) => output.isEmpty)) this.#end();
      else this.#watchSilence();
    }, this.#groupCheckMs);
  }

  #end(): void {
    if (this.#endEvent) return;
    clearTimeout(this.#silence);
    if (this.#input) this.#input.destroy();
    else if (this.#launched.stdin !== undefined) fs.closeSync(this.#launched.stdin);
    const { code, signal } = this.#exit!;
    const status = signal === null ? `exit status ${code}` : signalText(signal);
    this.#endEvent = {
      event: {
        case: 'end',
        value: {
          exitCode: signal === null ? code! : 128 + signal,
          exited: signal === null,
          status,
          error: code === 0 ? undefined : status,
        },
      },
    };
    this.#onEnd();
    for (const attachment of this.#attachments) attachment.finish(this.#endEvent);
  }
}

/** Whether a process group has members left. Its number is not reused while it has. */
function groupExists(group: number): boolean {
  try {
    process.kill(-group, 0);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
    // EPERM: the group has members that the agent may not signal.
    return true;
  }
}
