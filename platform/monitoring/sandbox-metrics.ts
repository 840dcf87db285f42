import { Counter, Histogram, type Registry } from 'prom-client';
import type { SandboxMove } from '../../domain/sandboxes/state.ts';

/** The buckets range from a warm start to a start that first pulls an image. */
const startBuckets = [0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];

/**
 * Metrics of sandboxes, counted where the changes are written. Labels are reasons and steps of the domain, never free
 * text.
 */
export class SandboxMetrics {
  readonly #moves: Counter<'status' | 'reason'>;
  readonly #starts: Histogram;
  readonly #steps: Histogram<'step'>;
  readonly #work: Histogram<'activity' | 'outcome'>;

  constructor(registry: Registry) {
    const registers = [registry];
    this.#moves = new Counter({
      name: 'sandbox_moves_total',
      help: 'Changes of the status of sandboxes that this process wrote, by the new status and its reason',
      labelNames: ['status', 'reason'],
      registers,
    });
    this.#starts = new Histogram({
      name: 'sandbox_start_seconds',
      help: 'Time from the admission of a sandbox until it runs for the first time',
      buckets: startBuckets,
      registers,
    });
    this.#steps = new Histogram({
      name: 'sandbox_start_step_seconds',
      help: 'Time of each step of a start on a host',
      labelNames: ['step'],
      buckets: startBuckets,
      registers,
    });
    this.#work = new Histogram({
      name: 'sandbox_work_seconds',
      help: 'Time of work on sandboxes in this process, by activity and outcome',
      labelNames: ['activity', 'outcome'],
      buckets: startBuckets,
      registers,
    });
  }

  /** @param startedAfterMs for the first run: the time since the admission */
  moved({ status, reason, startedAfterMs }: SandboxMove): void {
    this.#moves.inc({ status, reason: reason ?? 'none' });
    if (startedAfterMs !== null) this.#starts.observe(startedAfterMs / 1000);
  }

  stepped(step: string, ms: number): void {
    this.#steps.observe({ step }, ms / 1000);
  }

  worked(activity: string, outcome: 'completed' | 'failed' | 'cancelled', ms: number): void {
    this.#work.observe({ activity, outcome }, ms / 1000);
  }
}
