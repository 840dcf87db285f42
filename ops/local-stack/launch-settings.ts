import { z } from 'zod';
import { SettingsError } from '../../config/settings.ts';

const port = z.preprocess(
  (value) => (value === '' ? undefined : value),
  z.coerce.number().int().min(0).max(65535).optional(),
);

/**
 * Settings of `npm start` alone, beside those of the processes in `config/settings.ts`. A named port must be free;
 * otherwise one is chosen and kept in the data folder.
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
  /** Where free ports are looked for, in place of 7080 and the other usual ones: for many copies on one machine. */
  PLATFORM_PORTS_FROM: port,
});

export type LaunchSettings = z.infer<typeof launchSettingsSchema>;

/** @throws {SettingsError} naming each variable that is wrong */
export function loadLaunchSettings(env: NodeJS.ProcessEnv = process.env): LaunchSettings {
  const parsed = launchSettingsSchema.safeParse(env);
  if (parsed.success) return parsed.data;
  const lines = parsed.error.issues.map((issue) => `  ${issue.path.join('.')}: ${issue.message}`);
  throw new SettingsError(`Settings are wrong:\n${lines.join('\n')}`);
}
