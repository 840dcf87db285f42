import { port, textOr } from './field-types.ts';

/** Where processes serve metrics for Prometheus. */
export const metricsSettings = {
  /**
   * The address of each process's metrics for Prometheus, at `/metrics` with the token of `ops/operator/metrics-token.ts`.
   * Port 0 turns them off. `npm start` chooses ports.
   */
  PLATFORM_METRICS_HOST: textOr('127.0.0.1'),
  PLATFORM_API_METRICS_PORT: port(0),
  PLATFORM_GATEWAY_METRICS_PORT: port(0),
  PLATFORM_WORKER_METRICS_PORT: port(0),
  PLATFORM_HOST_METRICS_PORT: port(0),
};
