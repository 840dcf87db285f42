import { z } from 'zod';
import { type HostView, readHosts, setDraining } from '../../../db/hosts/host-drains.ts';
import { notFound } from '../../../domain/errors.ts';
import { operator } from '../../access.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { givenId, time } from '../../schemas/fields.ts';
import { envelope, failures, ofMutations, success } from '../../schemas/replies.ts';

const limit = () => z.int().nullable();

const hostSchema = z
  .object({
    host_id: z.string(),
    region: z.string().meta({ examples: ['eu'] }),
    state: z
      .enum(['ready', 'draining', 'away', 'lost'])
      .describe(
        '`ready`: takes sandboxes; `draining`: an operator drains it; `away`: it does not renew its lease; `lost`: its ' +
          'sandboxes were given up',
      ),
    draining_since: time().nullable(),
    lease_expires_at: time(),
    capacity: z
      .object({ cpu: limit(), memory_mb: limit(), disk_gb: limit() })
      .describe('What may be promised to sandboxes. Null: unlimited'),
    memory_mb_total: z.int().nullable().describe('The memory of the machine. Null: not measured yet'),
    free: z
      .object({ cpu: z.number(), memory_mb: z.int(), disk_mb: z.int() })
      .nullable()
      .describe('Measured room for more sandboxes. Negative: the host is under pressure. Null: not measured yet'),
    measured_at: time().nullable(),
    short_of: z.array(z.string()).describe('Used-up resources: `cpu`, `memory`, `disk`'),
    full_disk: z.string().nullable().describe('The nearly full disk: `data` or `cache`'),
    sandboxes: z
      .record(z.string(), z.int().min(0))
      .describe('The number of its sandboxes by status, without ended ones'),
  })
  .meta({ id: 'Host' });

function present(host: HostView): z.output<typeof hostSchema> {
  const { capacity, free } = host;
  return {
    host_id: host.hostId,
    region: host.region,
    state: host.state,
    draining_since: host.drainingSince,
    lease_expires_at: host.leaseExpiresAt,
    capacity: { cpu: capacity.cpu, memory_mb: capacity.memoryMb, disk_gb: capacity.diskGb },
    memory_mb_total: host.memoryMbTotal,
    free: free && { cpu: free.cpu, memory_mb: free.memoryMb, disk_mb: free.diskMb },
    measured_at: host.measuredAt,
    short_of: host.shortOf,
    full_disk: host.fullDisk,
    sandboxes: host.sandboxes,
  };
}

/** `GET /v1/admin/hosts`. */
export function listHosts(api: Api, deps: ApiDependencies): void {
  api.route({
    method: 'GET',
    url: '/v1/admin/hosts',
    config: { access: operator('everything') },
    schema: {
      operationId: 'listHosts',
      tags: ['Operation'],
      summary: 'List all hosts with their state and their room',
      description: 'In the order of their ids, also hosts that are away or lost.',
      response: {
        200: envelope(z.object({ hosts: z.array(hostSchema) }), 'All hosts'),
        ...failures('admin_required'),
      },
    },
    handler: async () => success({ hosts: (await readHosts(deps.orm.em)).map(present) }),
  });
}

const drains = [
  {
    method: 'POST',
    operationId: 'drainHost',
    draining: true,
    summary: 'Drain a host',
    description:
      'The host takes no more sandboxes and resumes none. Those that run continue until their timeout; ' +
      '`npm run admin -- drain-host --pause` also pauses them. A host that is already drained stays so.',
  },
  {
    method: 'DELETE',
    operationId: 'undrainHost',
    draining: false,
    summary: 'End the drain of a host',
    description: 'The host takes sandboxes again. Paused ones stay paused until they are resumed.',
  },
] as const;

/** `POST` and `DELETE /v1/admin/hosts/{host_id}/drain`. */
export function drainHosts(api: Api, deps: ApiDependencies): void {
  for (const { method, draining, ...documented } of drains) {
    api.route({
      method,
      url: '/v1/admin/hosts/:host_id/drain',
      config: { access: operator('everything') },
      schema: {
        ...documented,
        tags: ['Operation'],
        params: z.object({ host_id: givenId('host') }),
        response: {
          200: envelope(hostSchema, 'The host'),
          ...failures(ofMutations, 'admin_required', 'not_found'),
        },
      },
      handler: async ({ params: { host_id: hostId } }) => {
        const isSet = await setDraining(deps.orm.em, hostId, draining);
        const [host] = isSet ? await readHosts(deps.orm.em, hostId) : [];
        if (!host) throw notFound('Host');
        return success(present(host));
      },
    });
  }
}
