import type { EntityManager } from '@mikro-orm/postgresql';
import { fits, type RequiredCapacity } from '../../domain/hosts/placement.ts';
import { query } from '../core/query.ts';
import { readHostCapacities } from './host-capacities.ts';

export interface Region {
  id: string;
  name: string;
}

/** No sandbox needs less than this. */
const smallest: RequiredCapacity = {
  ...{ cpu: 1, memoryMb: 128, diskGb: 1, udpPorts: 0 },
  expected: { cpu: 0.1, memoryMb: 32, diskMb: 16 },
};

/** Regions with a live host that has capacity for a small sandbox, by id. Each has the name from its newest host. */
export async function openRegions(em: EntityManager): Promise<Region[]> {
  const open = new Set(
    (await readHostCapacities(em)).filter((host) => fits(host, smallest)).map((host) => host.region),
  );
  const named = await query<{ region: string; region_name: string }>(
    em,
    'select distinct on (region) region, region_name from hosts order by region, created_at desc',
  );
  return named.filter(({ region }) => open.has(region)).map(({ region, region_name: name }) => ({ id: region, name }));
}
