import { AppError } from '../errors.ts';

export const portProtocols = ['TCP', 'UDP', 'WEBRTC'] as const;

/** A port of a sandbox or a template. */
export interface Port {
  port: number;
  servicePort: number;
  protocol: (typeof portProtocols)[number];
  name: string;
  isProtected: boolean;
  /** The id of the change that added the port. A repeated change finds it and does nothing. */
  addedBy?: string;
}

/** A UDP port of a sandbox, and the port of its host that is forwarded to it. */
export interface UdpMapping {
  hostPort: number;
  servicePort: number;
}

/** The maximum number of a sandbox's own ports, in addition to its template's ports. */
export const maxCustomPorts = 64;

/**
 * The ports that a sandbox serves: its template's ports and its own. Its own port replaces a template's port of the
 * same number, unless that port is protected.
 */
export function unionOfPorts(templatePorts: readonly Port[], customPorts: readonly Port[]): Port[] {
  const kept = new Set(templatePorts.filter((item) => item.isProtected).map((item) => item.port));
  const own = customPorts.filter((item) => !kept.has(item.port));
  const taken = new Set(own.map((item) => item.port));
  return [...templatePorts.filter((item) => !taken.has(item.port)), ...own];
}

type PortsOfSandbox = { templatePorts: readonly Port[]; customPorts: readonly Port[] };

/**
 * Checks that a port can be added.
 * @throws {AppError} `port_taken`, `port_name_taken`, `port_limit_reached`
 */
export function checkNewPort({ templatePorts, customPorts }: PortsOfSandbox, port: Port): void {
  const there = unionOfPorts(templatePorts, customPorts);
  if (there.some((item) => item.port === port.port)) {
    throw new AppError('port_taken', `Port ${port.port} of the sandbox is already declared`);
  }
  if (there.some((item) => item.name === port.name)) {
    throw new AppError('port_name_taken', `Another port of the sandbox is called ${port.name}`);
  }
  if (customPorts.length >= maxCustomPorts) {
    throw new AppError('port_limit_reached', `A sandbox may have ${maxCustomPorts} own ports`);
  }
}

/**
 * The sandbox's own port to remove.
 * @throws {AppError} `not_found`; `port_of_template` for a template's port, which stays
 */
export function findRemovablePort({ templatePorts, customPorts }: PortsOfSandbox, port: number): Port {
  const own = customPorts.find((item) => item.port === port);
  if (own) return own;
  if (templatePorts.some((item) => item.port === port)) {
    throw new AppError('port_of_template', `Port ${port} belongs to the template and cannot be removed`);
  }
  throw new AppError('not_found', `The sandbox has no port ${port}`);
}

/**
 * The first port of a create that cannot be added to the template's ports: its index, the field, and the reason. Null:
 * all can be added. The caller has already checked that the ports differ from each other.
 */
export function conflictWithTemplate(
  templatePorts: readonly Port[],
  customPorts: readonly Port[],
): { index: number; field: 'port' | 'name'; reason: string } | null {
  const replaced = new Set(customPorts.map((item) => item.port));
  for (const [index, item] of customPorts.entries()) {
    if (templatePorts.some((each) => each.isProtected && each.port === item.port)) {
      return { index, field: 'port', reason: 'is a protected port of the template' };
    }
    if (templatePorts.some((each) => each.name === item.name && !replaced.has(each.port))) {
      return { index, field: 'name', reason: 'is the name of a port of the template' };
    }
  }
  return null;
}

/** Numbers of the ports that need a UDP port of the host, including template ports that an own port replaces. */
export function listUdpPorts({ templatePorts, customPorts }: PortsOfSandbox): number[] {
  const udp = [...templatePorts, ...customPorts].filter((item) => item.protocol === 'UDP');
  return [...new Set(udp.map((item) => item.port))];
}

/**
 * The UDP ports that the host forwards to a sandbox.
 * @param removing an own port to leave out, because it is being removed
 */
export function udpMappings(
  { templatePorts, customPorts, udpHostPorts }: PortsOfSandbox & { udpHostPorts: Readonly<Record<string, number>> },
  removing: number | null = null,
): UdpMapping[] {
  const staying = customPorts.filter((item) => item.port !== removing);
  return unionOfPorts(templatePorts, staying).flatMap((item) => {
    const hostPort = udpHostPorts[item.port];
    return item.protocol === 'UDP' && hostPort !== undefined ? [{ hostPort, servicePort: item.servicePort }] : [];
  });
}
