import { z } from 'zod';
import { SettingsError } from '../../platform/config/settings.ts';

const port = z.preprocess(
  (value) => (value === '' ? undefined : value),
  z.coerce.number().int().min(0).max(65535).optional(),
);

/**
 * Settings that only `npm start` has, in addition to those of the processes in `platform/config/settings/`. An explicit port
 * must be free. Without one, a port is chosen and stored in the data folder.
 */
const launchSettingsSchema = z.object({
  PLATFORM_API_PORT: port,
  PLATFORM_GATEWAY_PORT: port,
  PLATFORM_POSTGRES_PORT: port,
  PLATFORM_TEMPORAL_PORT: port,
  PLATFORM_TEMPORAL_UI_PORT: port,
  PLATFORM_REGISTRY_PORT: port,
  PLATFORM_API_METRICS_PORT: port,
  PLATFORM_GATEWAY_METRICS_PORT: port,
  PLATFORM_WORKER_METRICS_PORT: port,
  PLATFORM_HOST_METRICS_PORT: port,
  /** The first port to try, instead of 7080 and the other usual ones. For many copies on one machine. */
  PLATFORM_PORTS_FROM: port,
});

export type LaunchSettings = z.infer<typeof launchSettingsSchema>;

/** @throws {SettingsError} with the name of each wrong variable */
export function loadLaunchSettings(env: NodeJS.ProcessEnv = process.env): LaunchSettings {
  const parsed = launchSettingsSchema.safeParse(env);
  if (parsed.success) return parsed.data;
  const lines = parsed.error.issues.map((issue) => `  ${issue.path.join('.')}: ${issue.message}`);
  throw new SettingsError(`Settings are wrong:\n${lines.join('\n')}`);
}
