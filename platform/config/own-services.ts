import net from 'node:net';
import os from 'node:os';
import ipaddr from 'ipaddr.js';
import { resolveHost } from './resolve-host.ts';
import type { Settings } from './settings.ts';
import { turnSettings } from './turn-settings.ts';

/** A service of the platform itself: an address, or `local` for all addresses of this machine, and its TCP port. */
export interface OwnService {
  address: string;
  port: number;
  /**
   * Only the platform's own processes use the service. Sandboxes cannot reach it, although they share the host's
   * address.
   */
  isInner: boolean;
}

/** A service of the platform according to its settings. */
export interface NamedService {
  name: string;
  host: string;
  port: number;
  isInner: boolean;
}

const innerServices = new Set(['database', 'Temporal', 'Temporal Web UI', 'internal service', 'last hop', 'metrics']);

/**
 * Every service of the platform in this process's settings. User-supplied addresses may never lead to one of them, not
 * even within ranges that the operator opened.
 */
export function namedServices(settings: Settings): NamedService[] {
  const services = addressesIn(settings).filter(({ port }) => port > 0);
  return services.map((service) => ({ ...service, isInner: innerServices.has(service.name) }));
}

function addressesIn(settings: Settings): Omit<NamedService, 'isInner'>[] {
  const turn = turnSettings(settings);
  const urls = [
    ['database', settings.DATABASE_URL],
    ['Temporal', `tcp://${settings.TEMPORAL_ADDRESS}`],
    ['Temporal Web UI', settings.TEMPORAL_UI_URL],
    ['API', settings.PLATFORM_URL],
    ['registry', settings.PLATFORM_REGISTRY && `${scheme(settings)}://${settings.PLATFORM_REGISTRY}`],
    ['SMTP', settings.SMTP_URL],
    ['proxy', settings.PLATFORM_SANDBOX_PROXY_URL],
    ['last hop', settings.PLATFORM_LAST_HOP_ADDRESS && `tcp://${settings.PLATFORM_LAST_HOP_ADDRESS}`],
    ...settings.PLATFORM_INTERNAL_SERVICES.map((address) => ['internal service', `tcp://${address}`]),
  ] as [string, string | undefined][];
  return [
    ...urls.flatMap(([name, url]) => (url ? [{ name, ...parseAddress(url) }] : [])),
    { name: 'API', host: settings.PLATFORM_API_HOST, port: settings.PLATFORM_API_PORT },
    { name: 'gateway', host: settings.PLATFORM_GATEWAY_HOST, port: settings.PLATFORM_GATEWAY_PORT },
    ...[
      settings.PLATFORM_API_METRICS_PORT,
      settings.PLATFORM_GATEWAY_METRICS_PORT,
      settings.PLATFORM_WORKER_METRICS_PORT,
      settings.PLATFORM_HOST_METRICS_PORT,
    ].map((port) => ({ name: 'metrics', host: settings.PLATFORM_METRICS_HOST, port })),
    ...(turn
      ? [
          { name: 'TURN', ...turn.publicAddress },
          { name: 'TURN', ...turn.internalAddress },
          { name: 'TURN credentials', host: '0.0.0.0', port: turn.servicePort },
        ]
      : []),
  ];
}

/**
 * The current addresses of those services. A service on this machine is refused on every address of the machine.
 * @returns the last known addresses of a name that does not resolve now, because connections to them may be open
 */
export async function ownServices(services: readonly NamedService[], signal?: AbortSignal): Promise<OwnService[]> {
  const isOwn = ownAddresses();
  const found = await Promise.all(
    services.map(async ({ host, port, isInner }) => {
      const addresses = net.isIP(host) ? [host] : await resolveAddresses(host, signal);
      return addresses.map((address): OwnService => ({ address: isOwn(address) ? 'local' : address, port, isInner }));
    }),
  );
  const distinct = new Map(found.flat().map((service) => [`${service.address} ${service.port}`, service]));
  return [...distinct.values()];
}

/** @param address the address of the connection, as text */
export function isOwnService(services: readonly OwnService[], address: string, port: number): boolean {
  const plain = ipaddr.isValid(address) ? ipaddr.process(address).toString() : address;
  const isOwn = ownAddresses()(plain);
  return services.some((each) => each.port === port && (each.address === 'local' ? isOwn : each.address === plain));
}

/** The current addresses of this machine. */
function ownAddresses(): (address: string) => boolean {
  const own = new Set(
    Object.values(os.networkInterfaces()).flatMap((each) => (each ?? []).map(({ address }) => address)),
  );
  return (address) => own.has(address) || /^(127\.|0\.0\.0\.0$|::1?$)/.test(address);
}

/** By name. The names are those of the settings. */
const lastKnown = new Map<string, string[]>();

async function resolveAddresses(host: string, signal: AbortSignal | undefined): Promise<string[]> {
  try {
    const addresses = (await resolveHost(host, { signal })).map(({ address }) => address);
    lastKnown.set(host, addresses);
    return addresses;
  } catch {
    return lastKnown.get(host) ?? [];
  }
}

const scheme = (settings: Settings) => (settings.PLATFORM_REGISTRY_INSECURE_HTTP ? 'http' : 'https');
const usualPorts: Record<string, number> = {
  'http:': 80,
  'https:': 443,
  'postgres:': 5432,
  'postgresql:': 5432,
  'smtp:': 587,
  'smtps:': 465,
};

function parseAddress(text: string): { host: string; port: number } {
  const url = new URL(text);
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  return { host, port: Number(url.port) || (usualPorts[url.protocol] ?? 0) };
}
