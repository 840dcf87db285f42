import { z } from 'zod';
import { accountSettings } from './settings/accounts.ts';
import { billingSettings } from './settings/billing.ts';
import { isLabel } from './settings/field-types.ts';
import { hostSettings } from './settings/host.ts';
import { imageSettings } from './settings/images.ts';
import { kubernetesSettings } from './settings/kubernetes.ts';
import { lastHopSettings } from './settings/last-hop.ts';
import { metricsSettings } from './settings/metrics.ts';
import { outboundSettings } from './settings/outbound.ts';
import { processSettings } from './settings/process.ts';
import { regionSettings } from './settings/regions.ts';
import { retentionSettings } from './settings/retention.ts';
import { sandboxNetworkSettings } from './settings/sandbox-network.ts';
import { servingSettings } from './settings/serving.ts';
import { temporalSettings } from './settings/temporal.ts';
import { turnServerSettings } from './settings/turn.ts';

/** Every setting of every process. A process checks all of its settings before it starts anything. */
export const settingsSchema = z.object({
  ...processSettings,
  ...temporalSettings,
  ...servingSettings,
  ...accountSettings,
  ...billingSettings,
  ...retentionSettings,
  ...metricsSettings,
  ...hostSettings,
  ...regionSettings,
  ...kubernetesSettings,
  ...sandboxNetworkSettings,
  ...outboundSettings,
  ...lastHopSettings,
  ...imageSettings,
  ...turnServerSettings,
});

const paymentSettings = [
  'PLATFORM_STRIPE_PUBLISHABLE_KEY',
  'PLATFORM_STRIPE_SECRET_KEY_FILE',
  'PLATFORM_STRIPE_WEBHOOK_SECRET_FILE',
] as const;

/** What a host that is a cluster cannot do without. */
const clusterSettings = [
  'PLATFORM_KUBERNETES_AGENT_IMAGE',
  'PLATFORM_KUBERNETES_CLIENT_RANGES',
  'PLATFORM_SANDBOX_SUBNET',
] as const;

const checkedSchema = settingsSchema
  .superRefine((settings, context) => {
    if (settings.PLATFORM_DRIVER !== 'kubernetes') return;
    const require = (name: keyof typeof settings, message: string) =>
      context.addIssue({ code: 'custom', path: [name], message });
    for (const name of clusterSettings) {
      if (!settings[name]?.length) require(name, 'is needed with PLATFORM_DRIVER=kubernetes');
    }
    if (settings.PLATFORM_UDP_PORTS && !settings.PLATFORM_HOST_PUBLIC_ADDRESS) {
      require('PLATFORM_HOST_PUBLIC_ADDRESS', 'is needed with PLATFORM_DRIVER=kubernetes and PLATFORM_UDP_PORTS');
    }
    if (settings.PLATFORM_SANDBOX_CA_FILE) {
      require('PLATFORM_SANDBOX_CA_FILE', 'is not possible with PLATFORM_DRIVER=kubernetes: put the CA into the images');
    }
    // A process that starts elsewhere in the cluster is the same host.
    if (!isLabel(settings.PLATFORM_HOST_ID)) {
      require('PLATFORM_HOST_ID', 'is needed with PLATFORM_DRIVER=kubernetes, of letters a-z, digits and -, at most 63');
    }
  })
  .refine((settings) => new Set(paymentSettings.map((name) => !settings[name])).size === 1, {
    path: [paymentSettings[0]],
    message: `and ${paymentSettings.slice(1).join(' and ')} must be set all or none`,
  })
  .refine((settings) => !settings.PLATFORM_LAST_HOP_HOST_TOKEN_FILE || settings.PLATFORM_LAST_HOP_ADDRESS, {
    path: ['PLATFORM_LAST_HOP_HOST_TOKEN_FILE'],
    message: 'needs PLATFORM_LAST_HOP_ADDRESS',
  })
  .refine((settings) => !settings.PLATFORM_TURN_SECRET === !settings.PLATFORM_TURN_PUBLIC_HOST, {
    path: ['PLATFORM_TURN_SECRET'],
    message: 'and PLATFORM_TURN_PUBLIC_HOST must be set both or neither',
  })
  .refine((settings) => !settings.TEMPORAL_TLS_CERT_FILE === !settings.TEMPORAL_TLS_KEY_FILE, {
    path: ['TEMPORAL_TLS_CERT_FILE'],
    message: 'and TEMPORAL_TLS_KEY_FILE must be set both or neither',
  });

export type Settings = z.infer<typeof settingsSchema>;

/** One line a wrong setting, ready to be shown to an operator. */
export class SettingsError extends Error {
  override name = 'SettingsError';
}

/**
 * Reads and checks the settings of this process.
 * @throws {SettingsError} naming each variable that is missing or wrong, never its value.
 */
export function loadSettings(env: NodeJS.ProcessEnv = process.env): Settings {
  return checked(checkedSchema.safeParse(env));
}

/** Some settings alone, for what runs without the others. @throws {SettingsError} */
export function loadSomeSettings<Name extends keyof Settings>(
  names: readonly Name[],
  env: NodeJS.ProcessEnv = process.env,
): Pick<Settings, Name> {
  const schema = z.object(Object.fromEntries(names.map((name) => [name, settingsSchema.shape[name]])));
  const values: unknown = checked(schema.safeParse(env));
  return values as Pick<Settings, Name>;
}

function checked<Value>(parsed: z.ZodSafeParseResult<Value>): Value {
  if (parsed.success) return parsed.data;
  const lines = parsed.error.issues.map((issue) => `  ${issue.path.join('.')}: ${issue.message}`);
  throw new SettingsError(`Settings are wrong:\n${lines.join('\n')}`);
}
