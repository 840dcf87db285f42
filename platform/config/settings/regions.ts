import ipaddr from 'ipaddr.js';
import { listsByName, text, textOr } from './field-types.ts';

const isNetwork = (network: string) => ipaddr.isValidCIDR(network);

/** The region of this process, and how `auto_detect` finds the region of a caller. */
export const regionSettings = {
  PLATFORM_REGION: textOr('local'),
  PLATFORM_REGION_NAME: textOr('Local'),
  /**
   * For `auto_detect`: the header in which a proxy in front names the caller's region, and the networks of regions as
   * `eu=192.0.2.0/24,2001:db8::/32;us=198.51.100.0/24`. If neither names a region, this process's own region is used.
   */
  PLATFORM_REGION_HEADER: text(),
  PLATFORM_REGION_NETWORKS: listsByName(isNetwork, 'must be region=network,network;region=…'),
  /** For each region, the other regions, nearest first, as `eu=uk,us;us=eu`. Regions that are not named come last. */
  PLATFORM_REGIONS_NEAREST: listsByName(() => true, 'must be region=region,region;region=…'),
};
