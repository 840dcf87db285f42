import { PassThrough, type Readable } from 'node:stream';
import { Exec, type KubeConfig, type V1Status } from '@kubernetes/client-node';

type Connection = Awaited<ReturnType<Exec['exec']>>;

const maxErrorText = 4096;

/** A command in a container has failed, or its result is not known. */
export class PodCommandError extends Error {
  override name = 'PodCommandError';
  /** Null: the connection was lost, so the exit code is not known. */
  readonly exitCode: number | null;
  /** The end of the command's standard error output. It comes from inside a pod, so it is not trusted. */
  readonly output: string;

  constructor(message: string, exitCode: number | null, output: string) {
    super(message);
    this.exitCode = exitCode;
    this.output = output;
  }
}

/** A command that runs in a container. */
export interface PodCommand {
  /** The standard output, with backpressure. It also ends when the command fails. */
  output: Readable;
  /** @throws {PodCommandError} also when the connection is lost or the signal aborts */
  ended: Promise<void>;
  /** Writes a line to the standard input. */
  writeLine(line: string): void;
}

/**
 * Runs a command in a container. An abort of the signal ends the connection, but the command may continue.
 * @throws {Error} when the command cannot be started
 */
export async function startPodCommand(
  config: KubeConfig,
  pod: { namespace: string; name: string; container: string },
  words: string[],
  signal: AbortSignal,
): Promise<PodCommand> {
  signal.throwIfAborted();
  const ended = Promise.withResolvers<void>();
  ended.promise.catch(() => {});
  let errors = '';
  let isOver = false;
  const [input, stderr, output] = [new PassThrough(), new PassThrough(), new HeldStream()];
  stderr.setEncoding('latin1').on('data', (text: string) => {
    errors = (errors + text).slice(-maxErrorText);
  });
  const onStatus = (status: V1Status) => {
    isOver = true;
    if (status.status === 'Success') return ended.resolve();
    const code = status.details?.causes?.find(({ reason }) => reason === 'ExitCode')?.message;
    const exitCode = code === undefined ? null : Number(code);
    // The error output is read to its end before the command counts as ended.
    stderr.once('close', () => ended.reject(new PodCommandError(`${words[0]}: ${status.message}`, exitCode, errors)));
  };
  const { namespace, name, container } = pod;
  const exec = new Exec(config);
  const socket = await exec.exec(namespace, name, container, words, output, stderr, input, false, onStatus);
  output.hold(socket);
  const fail = (why: string) => {
    if (!isOver) ended.reject(new PodCommandError(why, null, errors));
    isOver = true;
    // The reader still gets the output that has arrived, except after an abort.
    if (signal.aborted) output.destroy(new Error(why));
    else if (!output.writableEnded) output.end();
  };
  const abort = () => {
    fail('the command in the container was given up');
    socket.terminate();
  };
  socket.addEventListener('close', () => fail('the connection to the container was closed'));
  socket.addEventListener('error', () => fail('the connection to the container failed'));
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  const release = () => {
    signal.removeEventListener('abort', abort);
    socket.close();
  };
  ended.promise.then(release, release);
  // An error of the output is also an error of the command, which `ended` reports.
  output.on('error', () => {});
  return { output, ended: ended.promise, writeLine: (line) => void input.write(`${line}\n`) };
}

/** A stream that pauses its connection while its reader is slow, so that its use of memory stays bounded. */
class HeldStream extends PassThrough {
  #socket: Connection | null = null;

  constructor() {
    super({ highWaterMark: 1 << 20 });
    this.on('drain', () => this.#socket?.resume());
  }

  hold(socket: Connection): void {
    this.#socket = socket;
    if (this.writableNeedDrain) socket.pause();
  }

  override write(chunk: Buffer): boolean {
    if (this.writableEnded || this.destroyed) return true;
    const takesMore = super.write(chunk);
    if (!takesMore) this.#socket?.pause();
    return takesMore;
  }
}
