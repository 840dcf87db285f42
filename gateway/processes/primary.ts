import cluster, { type Worker } from 'node:cluster';
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { CountLedger } from './count-ledger.ts';
import type { Count, FromProcess, ToProcess } from './messages.ts';

const FIRST_RESTART_DELAY_MS = 50;
const MAX_RESTART_DELAY_MS = 1000;
const READY_TIMEOUT_MS = 60_000;
const CHECK_INTERVAL_MS = 1000;
/** Looks without a sign of life after which a process counts as hung. */
const MAX_MISSED_SIGNS = 8;
/** Longer than a process drains. */
const STOP_TIMEOUT_MS = 15_000;
/** Failed starts in a row, with no process left that serves, after which the gateway gives up. */
const MAX_FAILED_STARTS = 5;

export interface GatewayProcessesOptions {
  /** The program of a serving process; it uses `Membership`. */
  program: string;
  count: number;
  logger: Logger;
  /** No process serves, and none can be started. */
  onGivenUp: () => void;
}

interface Member {
  worker: Worker;
  state: 'starting' | 'serving' | 'leaving';
  missedSigns: number;
}

/**
 * Several processes that accept from one listening socket, so that one that ends takes only its own connections with
 * it. This process handles no request. It starts each one that ends again, ends one that hangs, and adds up their
 * counts for the limits that hold for all of them.
 *
 * The kernel gives a new connection to a process that accepts (`SCHED_NONE`): one that hangs gets none, and what waits
 * in the queue is not lost with any of them.
 */
export class GatewayProcesses {
  readonly #options: GatewayProcessesOptions;
  readonly #members = new Map<number, Member>();
  readonly #ledger = new CountLedger();
  readonly #ticketKeys = randomBytes(48).toString('base64');
  readonly #ready = Promise.withResolvers<{ host: string; port: number }>();
  readonly #stopping = new AbortController();
  #address: { host: string; port: number } | null = null;
  #failedStarts = 0;
  #isReady = false;

  constructor(options: GatewayProcessesOptions) {
    this.#options = options;
    cluster.schedulingPolicy = cluster.SCHED_NONE;
    cluster.setupPrimary({ exec: options.program, args: [] });
  }

  /** Resolves with the address once every process serves. Rejects when one ends before. */
  start(): Promise<{ host: string; port: number }> {
    for (let i = 0; i < this.#options.count; i++) this.#fork();
    const timer = setInterval(() => this.#endHung(), CHECK_INTERVAL_MS).unref();
    this.#stopping.signal.addEventListener('abort', () => clearInterval(timer));
    return this.#ready.promise;
  }

  /** Lets every process drain and waits for their end. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    const ended = [...this.#members.values()].map(({ worker }) => endOf(worker));
    for (const { worker, state } of this.#members.values()) {
      if (state === 'starting') worker.process.kill('SIGKILL');
      else this.#send(worker, { kind: 'stop' });
    }
    const late = AbortSignal.timeout(STOP_TIMEOUT_MS);
    late.addEventListener('abort', () => {
      for (const { worker } of this.#members.values()) worker.process.kill('SIGKILL');
    });
    await Promise.all(ended);
  }

  #fork(): void {
    const { logger } = this.#options;
    const worker = cluster.fork();
    const member: Member = { worker, state: 'starting', missedSigns: 0 };
    this.#members.set(worker.id, member);
    const slow = setTimeout(() => {
      logger.error({ childPid: worker.process.pid }, 'a gateway process did not get ready');
      worker.process.kill('SIGKILL');
    }, READY_TIMEOUT_MS);
    worker.on('message', (message: FromProcess) => {
      if (message.kind === 'ready') clearTimeout(slow);
      this.#onMessage(member, message);
    });
    // A send that crosses the end of its process; 'exit' follows.
    worker.on('error', (error) => logger.debug({ err: error }, 'message to a gateway process lost'));
    worker.once('exit', (code, signal) => {
      clearTimeout(slow);
      this.#onExit(member, code, signal);
    });
    this.#send(worker, { kind: 'welcome', ticketKeys: this.#ticketKeys });
    this.#send(worker, { kind: 'others', counts: this.#ledger.othersOf(worker.id) });
  }

  #onMessage(member: Member, message: FromProcess): void {
    member.missedSigns = 0;
    switch (message.kind) {
      case 'ready':
        if (member.state !== 'starting') return;
        member.state = 'serving';
        this.#failedStarts = 0;
        this.#options.logger.info({ childPid: member.worker.process.pid }, 'a gateway process serves');
        this.#address ??= { host: message.host, port: message.port };
        this.#settleReady();
        return;
      case 'leaving':
        this.#leave(member);
        return;
      case 'counts':
        for (const count of message.counts) this.#ledger.set(member.worker.id, count);
        this.#tellOthers(member.worker.id, message.counts);
        return;
      case 'alive':
        return;
    }
  }

  #settleReady(): void {
    const isServing = [...this.#members.values()].every(({ state }) => state === 'serving');
    if (this.#isReady || !isServing) return;
    this.#isReady = true;
    this.#ready.resolve(this.#address!);
  }

  #onExit(member: Member, code: number | null, signal: string | null): void {
    const { worker } = member;
    this.#members.delete(worker.id);
    this.#tellOthers(worker.id, this.#ledger.remove(worker.id));
    if (this.#stopping.signal.aborted) return;
    const end = { childPid: worker.process.pid, code, signal };
    if (!this.#isReady) {
      this.#ready.reject(new Error(`a gateway process ended while starting: ${JSON.stringify(end)}`));
      return;
    }
    this.#options.logger.error(end, 'a gateway process ended');
    if (member.state === 'starting') this.#failedStarts++;
    this.#leave(member);
  }

  /** Starts another process in the place of one that ends or has ended. */
  #leave(member: Member): void {
    if (member.state === 'leaving' || this.#stopping.signal.aborted) return;
    const isServed = [...this.#members.values()].some(({ state }) => state === 'serving');
    member.state = 'leaving';
    if (!isServed && this.#failedStarts >= MAX_FAILED_STARTS) {
      this.#options.onGivenUp();
      return;
    }
    const waitMs = Math.min(FIRST_RESTART_DELAY_MS * 2 ** this.#failedStarts, MAX_RESTART_DELAY_MS);
    const { signal } = this.#stopping;
    delay(waitMs, undefined, { signal }).then(
      () => this.#fork(),
      () => undefined,
    );
  }

  #endHung(): void {
    for (const { worker, state, ...member } of this.#members.values()) {
      if (state === 'starting' || member.missedSigns < MAX_MISSED_SIGNS) continue;
      this.#options.logger.error({ childPid: worker.process.pid }, 'a gateway process hangs and is ended');
      worker.process.kill('SIGKILL');
    }
    for (const member of this.#members.values()) member.missedSigns++;
  }

  #tellOthers(processId: number, counts: Count[]): void {
    if (counts.length === 0) return;
    for (const { worker } of this.#members.values()) {
      if (worker.id === processId) continue;
      const sums = counts.map(([kind, key]): Count => [kind, key, this.#ledger.others(worker.id, kind, key)]);
      this.#send(worker, { kind: 'others', counts: sums });
    }
  }

  #send(worker: Worker, message: ToProcess): void {
    if (worker.isConnected()) worker.send(message, undefined, undefined, () => undefined);
  }
}

function endOf(worker: Worker): Promise<void> {
  return new Promise((resolve) => worker.once('exit', () => resolve()));
}
