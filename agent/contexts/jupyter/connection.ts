import type { KernelStart } from '../kernel.ts';
import type { KernelProcess } from '../kernel-process.ts';
import { type JupyterMessage, MessageCodec } from './messages.ts';
import { type Endpoint, type ZmtpEvents, ZmtpSocket } from './zmtp.ts';

/** The file from which a kernel reads its addresses. */
export interface ConnectionFile {
  transport: 'ipc' | 'tcp';
  ip: string;
  shell_port: number;
  iopub_port: number;
  stdin_port: number;
  control_port: number;
  hb_port: number;
  key: string;
  signature_scheme: 'hmac-sha256';
}

type Channel = 'shell' | 'control' | 'iopub';

const startSeconds = 60;
const retryMs = 50;
const subscribeMs = 200;

/** The channels to a running kernel: shell and control for requests, iopub for the kernel's publications. */
export class KernelConnection {
  onShell: (message: JupyterMessage) => void = () => {};
  onPublished: (message: JupyterMessage) => void = () => {};
  /** Called when a channel was lost. If the kernel has died, iopub is first read to its end. */
  onLost: () => void = () => {};
  readonly #file: ConnectionFile;
  readonly #codec: MessageCodec;
  readonly #sockets = new Map<Channel, ZmtpSocket>();
  #open = true;

  private constructor(file: ConnectionFile) {
    this.#file = file;
    this.#codec = new MessageCodec(file.key);
  }

  /**
   * Connects repeatedly until the kernel listens. Returns when it has answered and its publications arrive, because a
   * SUB socket that subscribes late misses earlier publications.
   */
  static async open(file: ConnectionFile, signal: AbortSignal): Promise<KernelConnection> {
    const connection = new KernelConnection(file);
    try {
      await Promise.all(
        (['iopub', 'shell', 'control'] as const).map((channel) => connection.#connect(channel, signal)),
      );
      await connection.#handshake(signal);
    } catch (error) {
      connection.close();
      throw error;
    }
    return connection;
  }

  /** Sends a request and returns its `msg_id`. */
  request(channel: 'shell' | 'control', type: string, content: object, metadata?: object): string {
    const { id, frames } = this.#codec.pack(type, content, metadata);
    this.#sockets.get(channel)?.send(frames);
    return id;
  }

  /** Starts or stops reading the kernel's publications. While they are not read, the kernel has to wait. */
  setFlowing(flowing: boolean): void {
    const iopub = this.#sockets.get('iopub');
    if (flowing) iopub?.resume();
    else iopub?.pause();
  }

  close(): void {
    this.#open = false;
    for (const socket of this.#sockets.values()) socket.close();
  }

  async #connect(channel: Channel, signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      if (await this.#tryConnect(channel)) return;
      await new Promise((resolve) => setTimeout(resolve, retryMs));
    }
  }

  #tryConnect(channel: Channel): Promise<boolean> {
    return new Promise((resolve) => {
      const events: ZmtpEvents = {
        onReady: () => {
          this.#sockets.set(channel, socket);
          resolve(true);
        },
        onMessage: (frames) => this.#receive(channel, frames),
        onClose: () => {
          resolve(false);
          if (this.#sockets.delete(channel) && this.#open) this.onLost();
        },
      };
      const socket = new ZmtpSocket(channel === 'iopub' ? 'SUB' : 'DEALER', toEndpoint(this.#file, channel), events);
    });
  }

  #receive(channel: Channel, frames: (Buffer | null)[]): void {
    const message = this.#codec.unpack(frames);
    if (!message) return;
    if (channel === 'shell') this.onShell(message);
    else if (channel === 'iopub') this.onPublished(message);
  }

  async #handshake(signal: AbortSignal): Promise<void> {
    let answered = false;
    let published = false;
    let wake = () => {};
    this.onShell = () => {
      answered = true;
      wake();
    };
    this.onPublished = () => {
      published = true;
      wake();
    };
    this.onLost = () => wake();
    signal.addEventListener('abort', () => wake(), { once: true });
    this.request('shell', 'kernel_info_request', {});
    while (!answered || !published) {
      let again: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        wake = resolve;
        // The kernel has answered but published nothing, so the subscription came too late for this request.
        if (answered) again = setTimeout(resolve, subscribeMs);
      });
      clearTimeout(again);
      signal.throwIfAborted();
      if (this.#sockets.size < 3) throw new Error('the kernel closed its sockets while it started');
      if (again && answered && !published) this.request('shell', 'kernel_info_request', {});
    }
  }
}

/** Aborts when the caller stops waiting for the kernel, when the kernel has ended, and when it takes too long to answer. */
export function startSignal(start: KernelStart, kernel: KernelProcess): AbortSignal {
  return AbortSignal.any([start.signal, kernel.gone, AbortSignal.timeout(startSeconds * 1000)]);
}

function toEndpoint(file: ConnectionFile, channel: Channel): Endpoint {
  const port = file[`${channel}_port`];
  return file.transport === 'ipc' ? { path: `${file.ip}-${port}` } : { host: file.ip, port };
}
