import { Gauge, type Registry } from 'prom-client';

/** The waiting tasks of a kind of work. */
export interface QueueFigure {
  work: string;
  kind: string;
  oldestSeconds: number;
}

/**
 * How long tasks of the control workers' queues wait. All control workers show the same values, so aggregate them with
 * `max`. The values are absent while Temporal cannot be reached.
 */
export function createQueueGauges(
  registry: Registry,
  read: () => Promise<QueueFigure[]>,
  onError: (error: unknown) => void,
): void {
  new Gauge({
    name: 'task_queue_oldest_seconds',
    help: 'Age of the oldest task that waits for a control worker, by work and kind of task; 0: none waits',
    labelNames: ['work', 'kind'],
    registers: [registry],
    async collect() {
      this.reset();
      try {
        for (const { work, kind, oldestSeconds } of await read()) this.set({ work, kind }, oldestSeconds);
      } catch (error) {
        onError(error);
      }
    },
  });
}
