import { isIPv6 } from 'node:net';
import type { SandboxId } from '../domain/ids.ts';

/** The destination of a Host: the platform itself, its API, a sandbox's agent, or a port of a sandbox. */
export type TargetHost =
  | { kind: 'base' }
  | { kind: 'api' }
  | SandboxTarget
  /** No name below the base domain. */
  | { kind: 'foreign' }
  | { kind: 'unknown' }
  | { kind: 'malformed' };

export interface SandboxTarget {
  kind: 'sandbox';
  sandboxId: SandboxId;
  /** Null: the agent. */
  port: number | null;
}

const authorityForm = /^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)\.?(?::([0-9]{1,5}))?$/;
const addressForm = /^\[([0-9a-f:.]{2,45})\](?::([0-9]{1,5}))?$/;
const sandboxLabel = /^(?:([1-9][0-9]{0,4})-)?(sbx-[a-z0-9]+(?:-[a-z0-9]+)*)$/;
const maxLabelLength = 63;

/**
 * Reads a Host header or `:authority`: `<sandbox_id>.<base domain>[:port]`, `<port>-<sandbox_id>.<base domain>[:port]`,
 * `api.<base domain>[:port]`, the base domain, or another name or address. Case and one trailing dot are ignored. The port is not checked, because proxies and port mappings
 * change it.
 */
export function readTargetHost(authority: string, baseDomain: string): TargetHost {
  const lowerCase = authority.toLowerCase();
  const address = addressForm.exec(lowerCase);
  if (address && isIPv6(address[1]!) && Number(address[2] ?? 0) <= 65535) return { kind: 'foreign' };
  const match = authorityForm.exec(lowerCase);
  const host = match?.[1];
  if (!host || Number(match[3] ?? 0) > 65535) return { kind: 'malformed' };
  if (host === baseDomain) return { kind: 'base' };
  if (!host.endsWith(`.${baseDomain}`)) return { kind: 'foreign' };
  const label = host.slice(0, -baseDomain.length - 1);
  if (label === 'api') return { kind: 'api' };
  const target = readLabel(label);
  return target ?? { kind: 'unknown' };
}

/**
 * The destination that the fields `E2b-Sandbox-Id` and `E2b-Sandbox-Port` name: the same as the host name
 * `<port>-<sandbox_id>`. Null: there are no such fields.
 */
export function readTargetFields(sandboxIds: string[], ports: string[]): SandboxTarget | { kind: 'malformed' } | null {
  if (sandboxIds.length === 0 && ports.length === 0) return null;
  const [sandboxId, port] = [sandboxIds[0], ports[0]];
  const isOneOfEach = sandboxIds.length === 1 && ports.length === 1;
  // Without this check, a part of the id could be in the other field.
  if (!isOneOfEach || !/^[0-9]+$/.test(port!)) return { kind: 'malformed' };
  return readLabel(`${port}-${sandboxId}`) ?? { kind: 'malformed' };
}

function readLabel(label: string): SandboxTarget | null {
  const parts = label.length <= maxLabelLength ? sandboxLabel.exec(label) : null;
  if (!parts) return null;
  const port = parts[1] === undefined ? null : Number(parts[1]);
  if (port !== null && port > 65535) return null;
  return { kind: 'sandbox', sandboxId: parts[2] as SandboxId, port };
}

/** Whether a TLS server name may carry requests for the base domain: no name, the base domain, or a name under it. */
export function isServerNameAllowed(serverName: string | null, baseDomain: string): boolean {
  if (!serverName) return true;
  const name = serverName.toLowerCase().replace(/\.$/, '');
  return name === baseDomain || name.endsWith(`.${baseDomain}`);
}
