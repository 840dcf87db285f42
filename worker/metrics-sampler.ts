import type { Logger } from 'pino';
import type { Orm } from '../db/orm.ts';
import {
  addUpMinutes,
  insertSamples,
  type MeteredUsage,
  sandboxesSampledSince,
} from '../db/repositories/sandbox-metrics.ts';
import type { SandboxId } from '../domain/ids.ts';
import type { SandboxDriver, SandboxUsage } from '../runtime/driver.ts';

const intervalMs = 5000;
const minuteMs = 60_000;
/** A host worker that was away for longer leaves minutes that are only in the samples. */
const catchUpMs = 60 * minuteMs;

/**
 * Looks at every running sandbox of a host each five seconds, on whole multiples of five, and stores what it used
 * since the look before, or since it began to run: one statement a look, and one more each minute. A look that could not be stored is not lost:
 * the next one covers its time, too.
 */
export class MetricsSampler {
  readonly #orm: Orm;
  readonly #driver: Pick<SandboxDriver, 'usage'>;
  readonly #hostId: string;
  readonly #logger: Logger;
  readonly #clock: () => number;
  readonly #onLook: (metered: readonly MeteredUsage[]) => void;
  #timer: NodeJS.Timeout | null = null;
  #looking: Promise<void> = Promise.resolve();
  #stopped = false;
  /** The last look that was stored, of each sandbox. */
  #previous = new Map<SandboxId, SandboxUsage>();
  /** The minute under way, and the sandboxes that were seen in it. */
  #minute: { startMs: number; sandboxIds: Set<SandboxId> } | null = null;

  /**
   * @param deps.clock Unix milliseconds
   * @param deps.onLook called with what each look found, whether or not it could be stored
   */
  constructor(deps: {
    orm: Orm;
    driver: Pick<SandboxDriver, 'usage'>;
    hostId: string;
    logger: Logger;
    clock?: () => number;
    onLook?: (metered: readonly MeteredUsage[]) => void;
  }) {
    this.#orm = deps.orm;
    this.#driver = deps.driver;
    this.#hostId = deps.hostId;
    this.#logger = deps.logger;
    this.#clock = deps.clock ?? Date.now;
    this.#onLook = deps.onLook ?? (() => {});
  }

  start(): void {
    const next = () => {
      if (this.#stopped) return;
      this.#timer = setTimeout(
        () => {
          this.#looking = this.look()
            .catch((error) =>
              this.#logger.warn({ err: error }, 'metrics could not be stored; the next look covers them'),
            )
            .then(next);
        },
        intervalMs - (this.#clock() % intervalMs),
      );
    };
    next();
  }

  /** Ends after the look in hand. */
  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer) clearTimeout(this.#timer);
    await this.#looking;
  }

  /** One look. */
  async look(): Promise<void> {
    const nowMs = Math.floor(this.#clock() / intervalMs) * intervalMs;
    await this.#addUpBefore(Math.floor(nowMs / minuteMs) * minuteMs);
    const usages = await this.#driver.usage();
    const metered = usages.flatMap((usage) => sinceLast(usage, this.#previous.get(usage.sandboxId)));
    this.#onLook(metered);
    await insertSamples(this.#orm.em, new Date(nowMs), metered);
    this.#previous = new Map(usages.map((usage) => [usage.sandboxId, usage]));
    for (const { sandboxId } of metered) this.#minute!.sandboxIds.add(sandboxId);
  }

  /** Adds up what was seen before this minute; after a start also what an earlier process may have left. */
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

/** What a sandbox used since the last look at the same run; at the first look since the run began. */
function sinceLast(usage: SandboxUsage, previous: SandboxUsage | undefined): MeteredUsage[] {
  const isSameRun = previous?.sinceMs === usage.sinceMs;
  const from = isSameRun ? previous! : { atMs: usage.sinceMs, cpuSeconds: 0, receivedBytes: 0, sentBytes: 0 };
  const overSeconds = (usage.atMs - from.atMs) / 1000;
  // Just begun: a share of no time is no share.
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
