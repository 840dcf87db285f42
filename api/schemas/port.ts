import { z } from 'zod';
import type { Port } from '../../domain/ports.ts';

/** Section 2.3. */
export const portSchema = z
  .object({
    port: z.int().min(1).max(65535),
    service_port: z.int().min(1).max(65535),
    protocol: z.enum(['TCP', 'UDP', 'WEBRTC']),
    name: z.string(),
    is_protected: z.boolean(),
  })
  .meta({ id: 'Port' });

export function presentPort(port: Port): z.output<typeof portSchema> {
  return {
    port: port.port,
    service_port: port.servicePort,
    protocol: port.protocol,
    name: port.name,
    is_protected: port.isProtected,
  };
}
