import { type ChildProcess, fork, type SendHandle } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { BoundSocket, type SocketHandle } from './bound-socket.ts';
import { CountLedger } from './count-ledger.ts';
import type { Count, FromProcess, ToProcess } from './messages.ts';

const firstRestartDelayMs = 50;
const maxRestartDelayMs = 1000;
/** For a replacement. The supervisor, systemd or the kubelet limits the gateway's own start. */
const readyTimeoutMs = 180_000;
const checkEveryMs = 1000;
/** After this many checks without a heartbeat a process counts as hung. */
const maxMissedSigns = 8;
/** Longer than the drain of a process. */
const stopTimeoutMs = 15_000;
/** After this many consecutive failed starts without any serving process, the gateway gives up. */
const maxFailedStarts = 5;

export interface GatewayProcessesOptions {
  /** The program of a serving process. It uses `Membership`. */
  program: string;
  count: number;
  host: string;
  port: number;
  logger: Logger;
  /** Called when no process serves and none can be started. */
  onGivenUp: () => void;
}

/** How long serving processes have to send their metrics. A hung process is left out. */
const collectTimeoutMs = 2000;

interface Member {
  id: number;
  child: ChildProcess;
  state: 'starting' | 'serving' | 'leaving';
  missedSigns: number;
}

/**
 * Several processes that accept from one listening socket, so that the end of one closes only its own connections. This
 * process handles no requests. It restarts processes that end, kills hung ones, and adds up their counts for the shared
 * limits. The kernel gives a new connection to a process that accepts, so a hung process gets none. This process keeps
 * the socket open too, so that connections wait in its queue when no other process is left. If this process ends for
 * any reason, the kernel kills the others (PR_SET_PDEATHSIG), including hung ones.
 */
export class GatewayProcesses {
  readonly #options: GatewayProcessesOptions;
  readonly #members = new Map<number, Member>();
  readonly #ledger = new CountLedger();
  readonly #ticketKeys = randomBytes(48).toString('base64');
  readonly #ready = Promise.withResolvers<void>();
  readonly #stopping = new AbortController();
  #socket: BoundSocket | null = null;
  #lastId = 0;
  #failedStarts = 0;
  #isReady = false;
  #collection = 0;
  #onMetrics: ((collection: number, metrics: object[]) => void) | null = null;

  constructor(options: GatewayProcessesOptions) {
    this.#options = options;
  }

  /**
   * Resolves with the address when every process serves. Rejects when the address is in use, or when a process exits
   * before that. One that a signal ends is started again.
   */
  async start(): Promise<{ host: string; port: number }> {
    this.#socket = await BoundSocket.bind(this.#options.host, this.#options.port);
    for (let i = 0; i < this.#options.count; i++) this.#fork();
    const timer = setInterval(() => this.#endHung(), checkEveryMs).unref();
    this.#stopping.signal.addEventListener('abort', () => clearInterval(timer));
    await this.#ready.promise;
    const { host, port } = this.#socket;
    return { host, port };
  }

  /** Drains all processes and waits for their end. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#socket?.close();
    const ended = [...this.#members.values()].map(({ child }) => waitForExit(child));
    for (const { child, state } of this.#members.values()) {
      if (state === 'starting') child.kill('SIGKILL');
      else this.#send(child, { kind: 'stop' });
    }
    const late = AbortSignal.timeout(stopTimeoutMs);
    late.addEventListener('abort', () => {
      for (const { child } of this.#members.values()) child.kill('SIGKILL');
    });
    await Promise.all(ended);
  }

  /**
   * The metrics of the serving processes, one list per process. Processes that do not reply in time are left out. Only
   * one collection runs at a time.
   */
  async collectMetrics(): Promise<object[][]> {
    const asked = [...this.#members.values()].filter(({ state }) => state === 'serving');
    const collection = ++this.#collection;
    const replies: object[][] = [];
    const done = Promise.withResolvers<void>();
    const timer = setTimeout(done.resolve, collectTimeoutMs);
    this.#onMetrics = (of, metrics) => {
      if (of !== collection) return;
      replies.push(metrics);
      if (replies.length === asked.length) done.resolve();
    };
    for (const { child } of asked) this.#send(child, { kind: 'collect', collection });
    if (asked.length > 0) await done.promise;
    clearTimeout(timer);
    this.#onMetrics = null;
    return replies;
  }

  /** The number of serving processes. */
  get servingCount(): number {
    return [...this.#members.values()].filter(({ state }) => state === 'serving').length;
  }

  #fork(): void {
    const { logger } = this.#options;
    // setpriv(1) of util-linux requests the signal and then executes Node.
    const child = fork(this.#options.program, [], {
      execPath: 'setpriv',
      execArgv: ['--pdeathsig', 'KILL', '--', process.execPath, ...process.execArgv],
    });
    const member: Member = { id: ++this.#lastId, child, state: 'starting', missedSigns: 0 };
    this.#members.set(member.id, member);
    const kill = () => {
      logger.error({ childPid: child.pid }, 'a gateway process did not become ready');
      child.kill('SIGKILL');
    };
    const slow = this.#isReady ? setTimeout(kill, readyTimeoutMs) : undefined;
    child.on('message', (message) => {
      const received = message as FromProcess;
      if (received.kind === 'ready') clearTimeout(slow);
      this.#onMessage(member, received);
    });
    const onExit = (code: number | null, signal: string | null) => {
      clearTimeout(slow);
      this.#onExit(member, code, signal);
    };
    child.once('exit', onExit);
    child.on('error', (error) => {
      logger.error({ err: error, childPid: child.pid }, 'a gateway process could not be started or reached');
      // The process was never started, so there will be no exit event.
      if (child.pid === undefined) onExit(null, null);
    });
    this.#send(child, { kind: 'welcome', ticketKeys: this.#ticketKeys }, this.#socket!.handle);
    this.#send(child, { kind: 'others', counts: this.#ledger.countOthers(member.id) });
  }

  #onMessage(member: Member, message: FromProcess): void {
    member.missedSigns = 0;
    switch (message.kind) {
      case 'ready':
        if (member.state !== 'starting') return;
        member.state = 'serving';
        this.#failedStarts = 0;
        this.#options.logger.info({ childPid: member.child.pid }, 'a gateway process serves');
        this.#settleReady();
        return;
      case 'leaving':
        this.#leave(member);
        return;
      case 'counts':
        for (const count of message.counts) this.#ledger.set(member.id, count);
        this.#sendToOthers(member.id, message.counts);
        return;
      case 'metrics':
        this.#onMetrics?.(message.collection, message.metrics);
        return;
      case 'alive':
        return;
    }
  }

  #settleReady(): void {
    if (this.#isReady || this.servingCount < this.#options.count) return;
    this.#isReady = true;
    this.#ready.resolve();
  }

  #onExit(member: Member, code: number | null, signal: string | null): void {
    const { id, child } = member;
    this.#members.delete(id);
    this.#sendToOthers(id, this.#ledger.remove(id));
    if (this.#stopping.signal.aborted) return;
    const end = { childPid: child.pid, code, signal };
    // A crash may be chance. An exit has a reason, such as a wrong setting.
    if (!this.#isReady && signal === null) {
      this.#ready.reject(new Error(`a gateway process ended while starting: ${JSON.stringify(end)}`));
      return;
    }
    this.#options.logger.error(end, 'a gateway process ended');
    if (member.state === 'starting') this.#failedStarts++;
    this.#leave(member);
  }

  /** Starts another process in place of one that is ending or has ended. */
  #leave(member: Member): void {
    if (member.state === 'leaving' || this.#stopping.signal.aborted) return;
    const isServed = [...this.#members.values()].some(({ state }) => state === 'serving');
    member.state = 'leaving';
    if (!isServed && this.#failedStarts >= maxFailedStarts) {
      this.#options.onGivenUp();
      return;
    }
    const waitMs = Math.min(firstRestartDelayMs * 2 ** this.#failedStarts, maxRestartDelayMs);
    const { signal } = this.#stopping;
    delay(waitMs, undefined, { signal }).then(
      () => this.#fork(),
      () => undefined,
    );
  }

  #endHung(): void {
    for (const { child, state, ...member } of this.#members.values()) {
      if (state === 'starting' || member.missedSigns < maxMissedSigns) continue;
      this.#options.logger.error({ childPid: child.pid }, 'a gateway process hangs and is killed');
      child.kill('SIGKILL');
    }
    for (const member of this.#members.values()) member.missedSigns++;
  }

  #sendToOthers(processId: number, counts: Count[]): void {
    if (counts.length === 0) return;
    for (const { id, child } of this.#members.values()) {
      if (id === processId) continue;
      const sums = counts.map(([kind, key]): Count => [kind, key, this.#ledger.others(id, kind, key)]);
      this.#send(child, { kind: 'others', counts: sums });
    }
  }

  /** A message to an ending process is lost, and 'exit' follows. */
  #send(child: ChildProcess, message: ToProcess, socket?: SocketHandle): void {
    if (child.connected) child.send(message, socket as SendHandle | undefined, undefined, () => undefined);
  }
}

function waitForExit(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => child.once('exit', () => resolve()));
}
