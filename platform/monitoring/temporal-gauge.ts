import { Gauge, type Registry } from 'prom-client';

const limitMs = 3000;

/**
 * Shows whether Temporal answers this process. Asked again for each scrape.
 * @param ask a cheap call of Temporal
 */
export function createTemporalGauge(registry: Registry, ask: () => Promise<unknown>): void {
  new Gauge({
    name: 'temporal_up',
    help: 'Whether Temporal answers this process',
    registers: [registry],
    async collect() {
      this.set(Number(await isAnswered(ask)));
    },
  });
}

async function isAnswered(ask: () => Promise<unknown>): Promise<boolean> {
  const timeout = Promise.withResolvers<false>();
  const timer = setTimeout(() => timeout.resolve(false), limitMs);
  try {
    return await Promise.race([
      ask().then(
        () => true,
        () => false,
      ),
      timeout.promise,
    ]);
  } finally {
    clearTimeout(timer);
  }
}
