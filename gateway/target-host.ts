import type { SandboxId } from '../domain/ids.ts';

/** The destination of a Host: the platform itself, a sandbox's agent, or a port of a sandbox. */
export type TargetHost =
  | { kind: 'base' }
  | { kind: 'sandbox'; sandboxId: SandboxId /** Null: the agent. */; port: number | null }
  | { kind: 'unknown' }
  | { kind: 'malformed' };

const authorityForm = /^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)\.?(?::([0-9]{1,5}))?$/;
const sandboxLabel = /^(?:([1-9][0-9]{0,4})-)?(sbx-[a-z0-9]+(?:-[a-z0-9]+)*)$/;
const maxLabelLength = 63;

/**
 * Reads a Host header or `:authority`: `<sandbox_id>.<base domain>[:port]`, `<port>-<sandbox_id>.<base domain>[:port]`
 * or the base domain. Case and one trailing dot are ignored. The port is not checked, because proxies and port mappings
 * change it.
 */
export function readTargetHost(authority: string, baseDomain: string): TargetHost {
  const match = authorityForm.exec(authority.toLowerCase());
  const host = match?.[1];
  if (!host || Number(match[3] ?? 0) > 65535) return { kind: 'malformed' };
  if (host === baseDomain) return { kind: 'base' };
  if (!host.endsWith(`.${baseDomain}`)) return { kind: 'unknown' };
  const label = host.slice(0, -baseDomain.length - 1);
  const parts = label.length <= maxLabelLength ? sandboxLabel.exec(label) : null;
  if (!parts) return { kind: 'unknown' };
  const port = parts[1] === undefined ? null : Number(parts[1]);
  if (port !== null && port > 65535) return { kind: 'unknown' };
  return { kind: 'sandbox', sandboxId: parts[2] as SandboxId, port };
}

/** Whether a TLS server name may carry requests for the base domain: no name, the base domain, or a name under it. */
export function isServerNameAllowed(serverName: string | null, baseDomain: string): boolean {
  if (!serverName) return true;
  const name = serverName.toLowerCase().replace(/\.$/, '');
  return name === baseDomain || name.endsWith(`.${baseDomain}`);
}
