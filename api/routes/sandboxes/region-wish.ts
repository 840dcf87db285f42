import type { EntityManager } from '@mikro-orm/postgresql';
import type { FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';
import { isKnownRegion } from '../../../db/hosts/hosts.ts';
import { AppError } from '../../../domain/errors.ts';
import { nearestTo, type RegionWish } from '../../../domain/hosts/regions.ts';
import type { Settings } from '../../../platform/config/settings.ts';
import type { CreateBody } from './create-body.ts';

/**
 * The regions for a request's `locality`: first the given region, or with `auto_detect` the caller's region, otherwise
 * the region of this process. The other regions follow by distance. `force` allows only the first, except with
 * `auto_detect`.
 * @throws {AppError} `invalid_region`
 */
export async function regionWish(
  em: EntityManager,
  settings: Settings,
  request: Pick<FastifyRequest, 'headers' | 'ip'>,
  locality: CreateBody['locality'],
): Promise<RegionWish> {
  const { region: named, auto_detect: autoDetect = false } = locality ?? {};
  const force = !autoDetect && (locality?.force ?? false);
  const wish = (region: string, forced: boolean) => ({
    nearest: nearestTo(region, settings.PLATFORM_REGIONS_NEAREST),
    forced,
  });
  if (named !== undefined) {
    if (await isKnownRegion(em, named)) return wish(named, force);
    throw new AppError('invalid_region', 'There is no such region', {
      details: [{ path: 'locality.region', reason: 'there is no such region' }],
    });
  }
  const detected = autoDetect ? callerRegion(settings, request) : null;
  if (detected !== null && (await isKnownRegion(em, detected))) return wish(detected, force);
  return wish(settings.PLATFORM_REGION, false);
}

/** The region of this caller according to the operator's settings. Null: unknown. */
function callerRegion(settings: Settings, { headers, ip }: Pick<FastifyRequest, 'headers' | 'ip'>): string | null {
  const header = settings.PLATFORM_REGION_HEADER && headers[settings.PLATFORM_REGION_HEADER.toLowerCase()];
  if (typeof header === 'string' && header.trim() !== '') return header.trim();
  const address = ipaddr.process(ip);
  for (const [region, networks] of Object.entries(settings.PLATFORM_REGION_NETWORKS)) {
    for (const network of networks) {
      const [base, bits] = ipaddr.parseCIDR(network);
      if (base.kind() === address.kind() && address.match(base, bits)) return region;
    }
  }
  return null;
}
