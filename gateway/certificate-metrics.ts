import { Gauge, type Registry } from 'prom-client';

/**
 * Shows when the certificates of this process expire. Of several processes, the earliest time is shown.
 * @param expiries by certificate; null: the process has none at present
 */
export function showCertificates(registry: Registry, expiries: Record<string, () => Date | null>): void {
  new Gauge({
    name: 'certificate_expires_seconds',
    help: 'When a certificate expires, in Unix seconds; 0: there is none',
    labelNames: ['certificate'],
    aggregator: 'min',
    registers: [registry],
    collect() {
      for (const [certificate, expiresAt] of Object.entries(expiries)) {
        this.set({ certificate }, (expiresAt()?.getTime() ?? 0) / 1000);
      }
    },
  });
}
