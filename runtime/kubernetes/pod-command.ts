import { PassThrough, type Readable } from 'node:stream';
import { Exec, type KubeConfig, type V1Status } from '@kubernetes/client-node';

type Connection = Awaited<ReturnType<Exec['exec']>>;

const maxErrorText = 4096;

/** A command in a container that ended in another way than by success. */
export class PodCommandError extends Error {
  override name = 'PodCommandError';
  /** Null: the connection was lost, so it is not known. */
  readonly exitCode: number | null;
  /** The end of its standard error output. Comes from inside a pod. */
  readonly output: string;

  constructor(message: string, exitCode: number | null, output: string) {
    super(message);
    this.exitCode = exitCode;
    this.output = output;
  }
}

/** A command that runs in a container. */
export interface PodCommand {
  /** Its standard output, no faster than it is read. Ends with the command, however that ends. */
  output: Readable;
  /** @throws {PodCommandError} also when the connection is lost or the signal aborts */
  ended: Promise<void>;
  /** Writes a line to its standard input. */
  tell(line: string): void;
}

/**
 * Runs a command in a container. When the signal aborts, the connection ends; the command may go on.
 * @throws {Error} when it cannot be run
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
    // Its errors are read to the end first.
    stderr.once('close', () => ended.reject(new PodCommandError(`${words[0]}: ${status.message}`, exitCode, errors)));
  };
  const { namespace, name, container } = pod;
  const exec = new Exec(config);
  const socket = await exec.exec(namespace, name, container, words, output, stderr, input, false, onStatus);
  output.hold(socket);
  const fail = (why: string) => {
    if (!isOver) ended.reject(new PodCommandError(why, null, errors));
    isOver = true;
    // What has arrived by now is read, unless it is the signal that ends it.
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
  // Its failure is that of the command.
  output.on('error', () => {});
  return { output, ended: ended.promise, tell: (line) => void input.write(`${line}\n`) };
}

/** Holds the connection that feeds it while its reader is behind, so that memory stays bounded. */
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
