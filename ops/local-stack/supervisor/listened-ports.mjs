/**
 * The ports of a copy that have a setting. Plain JavaScript, because set-up checks them with the machine's own Node.
 */

/** Parts with a port of their own, and the first port to try for each. */
export const usualPorts = {
  PLATFORM_API_PORT: 7080,
  PLATFORM_GATEWAY_PORT: 7081,
  PLATFORM_TEMPORAL_PORT: 7233,
  PLATFORM_TEMPORAL_UI_PORT: 8233,
  PLATFORM_POSTGRES_PORT: 7432,
  PLATFORM_REGISTRY_PORT: 7500,
  PLATFORM_API_METRICS_PORT: 7091,
  PLATFORM_GATEWAY_METRICS_PORT: 7092,
  PLATFORM_WORKER_METRICS_PORT: 7093,
  PLATFORM_HOST_METRICS_PORT: 7094,
};

/** The metrics port of each process, by the name of the process. */
export const metricsPorts = /** @type {const} */ ({
  api: 'PLATFORM_API_METRICS_PORT',
  gateway: 'PLATFORM_GATEWAY_METRICS_PORT',
  worker: 'PLATFORM_WORKER_METRICS_PORT',
  host: 'PLATFORM_HOST_METRICS_PORT',
});

/** The settings of addresses to listen on other than loopback. @type {Record<string, string>} */
const addressSettings = {
  PLATFORM_API_PORT: 'PLATFORM_API_HOST',
  PLATFORM_GATEWAY_PORT: 'PLATFORM_GATEWAY_HOST',
  ...Object.fromEntries(Object.values(metricsPorts).map((name) => [name, 'PLATFORM_METRICS_HOST'])),
};

/**
 * The address that a part listens on.
 * @param {string} name of its port's setting
 * @param {NodeJS.ProcessEnv} env
 * @returns {string}
 */
export const listenAddress = (name, env) => env[addressSettings[name] ?? ''] || '127.0.0.1';
