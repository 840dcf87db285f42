import { z } from 'zod';
import { emptyIsUnset, networks, portRange, text, whole } from './field-types.ts';

/** The network of the sandboxes on a host. */
export const sandboxNetworkSettings = {
  /**
   * The network of the sandboxes, a /16 to /24. Empty: a free network in 10.0.0.0/8 is chosen and kept in the data folder.
   * On a cluster: the pod network, of any size.
   */
  PLATFORM_SANDBOX_SUBNET: text(),
  /**
   * Comma-separated IPv4 networks (CIDR) from which this host accepts TCP connections to its sandboxes: those of gateways
   * and APIs that have a route to the sandboxes' subnet. Empty: only this host's own processes reach its sandboxes.
   */
  PLATFORM_ROUTED_NETWORKS: networks(),
  /** Comma-separated DNS resolvers for sandboxes. Empty: the host's upstream resolvers. */
  PLATFORM_SANDBOX_DNS: text(),
  /**
   * The address at which clients reach UDP ports of this host's sandboxes. Empty: the host's own outbound address. A cluster
   * with UDP ports needs this setting: an address of a node or of the load balancer.
   */
  PLATFORM_HOST_PUBLIC_ADDRESS: text().refine(
    (address) => !address?.includes(':'),
    'must be an IPv4 address or a name',
  ),
  /**
   * `first-last`, the UDP ports of this host that are forwarded to sandboxes, or `none`. Empty: 128 free ports are chosen and
   * kept in the data folder; on a cluster none.
   */
  PLATFORM_UDP_PORTS: z.preprocess(emptyIsUnset, portRange.optional()),
  /** Mbit/s that one sandbox may send to the internet; it may receive as much. 0: not limited. */
  PLATFORM_SANDBOX_BANDWIDTH_MBPS: whole(1000),
  /**
   * `http://user:password@host:port`: a proxy that sandboxes with internet access get as `network_proxy` and in the usual
   * variables. They may reach it even in a private network. Empty: none.
   */
  PLATFORM_SANDBOX_PROXY_URL: z.preprocess(emptyIsUnset, z.url({ protocol: /^https?$/ }).optional()),
  /**
   * PEM file with CA certificates that every sandbox of this host trusts in addition to those of its image, such as that of
   * a proxy that inspects TLS. Every sandbox can read it. Empty: none. Not on a cluster.
   */
  PLATFORM_SANDBOX_CA_FILE: text(),
};
