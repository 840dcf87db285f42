import { z } from 'zod';
import type { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import { maxPortName, whyNoName } from '../../domain/names.ts';
import { type Port, portProtocols, unionOfPorts } from '../../domain/sandboxes/ports.ts';
import { namePattern, optionalNonZero, withDefault } from './fields.ts';

const portNumber = () => z.int().min(1).max(65535);

/** A port of a sandbox or of a template. */
export const portSchema = z
  .object({
    port: portNumber(),
    service_port: portNumber(),
    protocol: z.enum(portProtocols),
    name: z.string(),
    is_protected: z.boolean().describe('The port requires the access token'),
    host_port: z
      .string()
      .nullable()
      .optional()
      .describe('Only for UDP: the `<address>:<port>` of the host; null: not reachable now'),
  })
  .meta({ id: 'Port' });

/** A port that a caller adds to a sandbox. */
export const newPortSchema = z.object({
  port: portNumber(),
  name: z
    .string()
    .max(64)
    .superRefine((name, context) => {
      const reason = whyNoName(name, maxPortName);
      if (reason !== null) context.addIssue({ code: 'custom', message: reason });
    })
    .meta({ minLength: 1, maxLength: maxPortName, pattern: namePattern }),
  protocol: withDefault(z.enum(portProtocols), 'TCP'),
  service_port: optionalNonZero(portNumber()).describe(
    'The port on which the server in the sandbox listens; default: `port`',
  ),
  is_protected: withDefault(z.boolean(), false).describe('Require the access token'),
});

export function readNewPort(asked: z.output<typeof newPortSchema>): Port {
  return {
    port: asked.port,
    servicePort: asked.service_port ?? asked.port,
    protocol: asked.protocol,
    name: asked.name,
    isProtected: asked.is_protected,
  };
}

export type PortFields = z.output<typeof portSchema>;

export function presentPort(port: Port): PortFields {
  return {
    port: port.port,
    service_port: port.servicePort,
    protocol: port.protocol,
    name: port.name,
    is_protected: port.isProtected,
  };
}

/** The three lists of a sandbox's ports, with the host's address for UDP ports. */
export function presentPorts({
  sandbox,
  hostAddress,
}: {
  sandbox: Pick<Sandbox, 'templatePorts' | 'customPorts' | 'udpHostPorts'>;
  hostAddress: string | null;
}): Record<'ports' | 'template_ports' | 'custom_ports', PortFields[]> {
  const present = (port: Port): PortFields => {
    if (port.protocol !== 'UDP') return presentPort(port);
    const hostPort = sandbox.udpHostPorts[port.port];
    return { ...presentPort(port), host_port: hostAddress && hostPort ? `${hostAddress}:${hostPort}` : null };
  };
  const { templatePorts, customPorts } = sandbox;
  return {
    ports: unionOfPorts(templatePorts, customPorts).map(present),
    template_ports: templatePorts.map(present),
    custom_ports: customPorts.map(present),
  };
}
