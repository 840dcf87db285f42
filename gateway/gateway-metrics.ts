import { AggregatorRegistry, Counter, Gauge, Registry } from 'prom-client';

/**
 * Counts the requests of one gateway process, and shows the requests in progress.
 * @returns a function to call with the status at the end of each request
 */
export function countRequests(
  registry: Registry,
  stats: () => { connections: number; sandboxes: number },
): (status: number) => void {
  const requests = new Counter({
    name: 'gateway_requests_total',
    help: 'Requests that have ended, by the class of their status; none: the client went before there was one',
    labelNames: ['status'],
    registers: [registry],
  });
  for (const status of ['1xx', '2xx', '3xx', '4xx', '5xx', 'none']) requests.inc({ status }, 0);
  new Gauge({
    name: 'gateway_connections',
    help: 'Open connections of clients',
    registers: [registry],
    collect() {
      this.set(stats().connections);
    },
  });
  new Gauge({
    name: 'gateway_sandboxes_in_use',
    help: 'Sandboxes with requests under way; of several processes the sum, so one may count twice',
    registers: [registry],
    collect() {
      this.set(stats().sandboxes);
    },
  });
  return (status) => requests.inc({ status: status === 0 ? 'none' : `${Math.floor(status / 100)}xx` });
}

/** The metrics of all serving processes of a gateway as one text, with the number of those processes. */
export async function gatewayMetrics(gateway: {
  servingCount: number;
  collectMetrics(): Promise<object[][]>;
}): Promise<string> {
  const registry = new Registry();
  new Gauge({
    name: 'gateway_processes',
    help: 'Processes of the gateway that serve',
    registers: [registry],
  }).set(gateway.servingCount);
  const [own, all] = [await registry.metrics(), AggregatorRegistry.aggregate(await gateway.collectMetrics())];
  return `${own}\n${await all.metrics()}`;
}
