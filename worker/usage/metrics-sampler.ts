import type { Logger } from 'pino';
import type { Orm } from '../../db/orm.ts';
import {
  addUpMinutes,
  insertSamples,
  type MeteredUsage,
  sandboxesSampledSince,
} from '../../db/usage/sandbox-metrics.ts';
import type { SandboxId } from '../../domain/ids.ts';
import type { SandboxDriver, SandboxUsage } from '../../runtime/driver.ts';

const intervalMs = 5000;
const minuteMs = 60_000;
/** After a longer absence of the host worker, some minutes exist only as samples. */
const catchUpMs = 60 * minuteMs;

/**
 * Samples every running sandbox of a host at each whole multiple of five seconds, and stores its use since the previous
 * sample, or since it began to run. It makes one statement per sample, and one more each minute. If a sample could not
 * be stored, the next one covers its time too.
 */
export class MetricsSampler {
  readonly #orm: Orm;
  readonly #driver: Pick<SandboxDriver, 'usage'>;
  readonly #hostId: string;
  readonly #logger: Logger;
  readonly #clock: () => number;
  readonly #onSample: (metered: readonly MeteredUsage[]) => void;
  #timer: NodeJS.Timeout | null = null;
  #sampling: Promise<void> = Promise.resolve();
  #stopped = false;
  /** The last stored sample of each sandbox. */
  #previous = new Map<SandboxId, SandboxUsage>();
  /** The current minute, and the sandboxes sampled in it. */
  #minute: { startMs: number; sandboxIds: Set<SandboxId> } | null = null;

  /**
   * @param deps.clock Unix milliseconds
   * @param deps.onSample called with each sample, even if it could not be stored
   */
  constructor(deps: {
    orm: Orm;
    driver: Pick<SandboxDriver, 'usage'>;
    hostId: string;
    logger: Logger;
    clock?: () => number;
    onSample?: (metered: readonly MeteredUsage[]) => void;
  }) {
    this.#orm = deps.orm;
    this.#driver = deps.driver;
    this.#hostId = deps.hostId;
    this.#logger = deps.logger;
    this.#clock = deps.clock ?? Date.now;
    this.#onSample = deps.onSample ?? (() => {});
  }

  start(): void {
    const next = () => this.#sampleAt((Math.floor(this.#clock() / intervalMs) + 1) * intervalMs, next);
    next();
  }

  /** Stops after the current sample. */
  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer) clearTimeout(this.#timer);
    await this.#sampling;
  }

  #sampleAt(atMs: number, next: () => void): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      // Timers use another clock and may fire early. An early sample would count for the previous five seconds.
      const missingMs = atMs - this.#clock();
      if (missingMs > 0 && missingMs < intervalMs) return this.#sampleAt(atMs, next);
      this.#sampling = this.sample()
        .catch((error) =>
          this.#logger.warn({ err: error }, 'metrics could not be stored; the next sample covers their time'),
        )
        .then(next);
    }, atMs - this.#clock());
  }

  /** Takes one sample of all sandboxes. */
  async sample(): Promise<void> {
    const nowMs = Math.floor(this.#clock() / intervalMs) * intervalMs;
    await this.#addUpBefore(Math.floor(nowMs / minuteMs) * minuteMs);
    const usages = await this.#driver.usage();
    const metered = usages.flatMap((usage) => sinceLast(usage, this.#previous.get(usage.sandboxId)));
    this.#onSample(metered);
    await insertSamples(this.#orm.em, new Date(nowMs), metered);
    this.#previous = new Map(usages.map((usage) => [usage.sandboxId, usage]));
    for (const { sandboxId } of metered) this.#minute!.sandboxIds.add(sandboxId);
  }

  /** Adds up the samples before this minute. The first call after a start includes samples of an earlier process. */
  async #addUpBefore(minuteStartMs: number): Promise<void> {
    const { em } = this.#orm;
    if (this.#minute?.startMs === minuteStartMs) return;
    const [fromMs, sandboxIds] = this.#minute
      ? [this.#minute.startMs, [...this.#minute.sandboxIds]]
      : await sandboxesSampledSince(em, this.#hostId, new Date(minuteStartMs - catchUpMs)).then(
          (ids) => [minuteStartMs - catchUpMs, ids] as const,
        );
    await addUpMinutes(em, sandboxIds, new Date(fromMs), new Date(minuteStartMs));
    this.#minute = { startMs: minuteStartMs, sandboxIds: new Set() };
  }
}

/** The use since the previous sample of the same run, or since the run began if there is none. */
function sinceLast(usage: SandboxUsage, previous: SandboxUsage | undefined): MeteredUsage[] {
  const isSameRun = previous?.sinceMs === usage.sinceMs;
  const from = isSameRun ? previous! : { atMs: usage.sinceMs, cpuSeconds: 0, receivedBytes: 0, sentBytes: 0 };
  const overSeconds = (usage.atMs - from.atMs) / 1000;
  // The run has just begun, so there is no time to divide by.
  if (overSeconds <= 0) return [];
  return [
    {
      sandboxId: usage.sandboxId,
      cpuSeconds: usage.cpuSeconds - from.cpuSeconds,
      overSeconds,
      memoryBytes: usage.memoryBytes,
      diskBytes: usage.diskBytes,
      diskTotalBytes: usage.diskTotalBytes,
      receivedBytes: usage.receivedBytes - from.receivedBytes,
      sentBytes: usage.sentBytes - from.sentBytes,
    },
  ];
}
