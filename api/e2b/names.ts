import type { SandboxStatus } from '../../domain/sandboxes/state.ts';
import type { Settings } from '../../platform/config/settings.ts';

/** The version of the agent inside E2B's sandboxes whose features ours has. SDKs switch features on by it. */
export const envdVersion = '0.6.4';

/** E2B's name of a cluster. Clients only pass it on. */
export const clientId = 'sandbox-platform';

/** Names of built-in templates that programs for E2B use. */
const builtinNames = new Map([['code-interpreter-v1', 'code-interpreter']]);
const e2bNames = new Map([...builtinNames].map(([e2b, ours]) => [ours, e2b]));

/** The platform's name, or the id, of the template that a client names. */
export function templateNamed(nameOrId: string): string {
  return builtinNames.get(nameOrId) ?? nameOrId;
}

/** The name of a template for clients. */
export function e2bTemplateName(name: string): string {
  return e2bNames.get(name) ?? name;
}

export const e2bStates = ['running', 'paused'] as const;
export type E2bState = (typeof e2bStates)[number];

/** The statuses that clients see as a state. In all others, a sandbox does not exist for them. */
export const statusesOf: Record<E2bState, readonly SandboxStatus[]> = {
  running: ['created', 'starting', 'running', 'resuming'],
  paused: ['pausing', 'paused'],
};

/** Null: it has ended, or is about to. */
export function e2bState(status: SandboxStatus): E2bState | null {
  return e2bStates.find((state) => statusesOf[state].includes(status)) ?? null;
}

/** The domain of sandboxes, with the gateway's port unless it is that of HTTPS. */
export function e2bDomain(settings: Settings): string {
  const port = settings.PLATFORM_GATEWAY_PUBLIC_PORT ?? settings.PLATFORM_GATEWAY_PORT;
  return port === 443 ? settings.PLATFORM_BASE_DOMAIN : `${settings.PLATFORM_BASE_DOMAIN}:${port}`;
}
