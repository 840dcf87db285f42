import {
  closedIpv4Ranges,
  closedIpv6Ranges,
  innerLoopbackAddress,
  publicIpv6Range,
} from '../../domain/outbound-addresses.ts';
import type { OwnService } from '../../platform/config/own-services.ts';
import type { PortRange } from '../host-driver.ts';

/** The parameters of one copy's firewall. None of them changes when sandboxes start or end. */
export interface FirewallPlan {
  table: string;
  /** The prefix of this copy's interfaces. */
  interfacePrefix: string;
  /** Interface group of the sandboxes that may reach the internet. */
  internetGroup: number;
  subnet: string;
  resolvers: string[];
  /** Networks of the host itself. */
  hostNetworks: string[];
  /** Services of the host worker that all sandboxes may use, even without internet access. */
  hostServices: Server[];
  /** Servers in closed networks, including the host's own addresses, that sandboxes with internet access may reach. */
  openServers: Server[];
  /** IPv4 networks, as CIDR, whose machines may open TCP connections to sandboxes. */
  routedNetworks: readonly string[];
  /** The rate at which each sandbox may send to other machines, and receive from them. Undefined: unlimited. */
  bandwidthMbps?: number;
  /** Ports of the host that may be forwarded to sandboxes. Other copies read them. */
  udpRange: PortRange | null;
  /** Ports that are currently forwarded to sandboxes. */
  udpRoutes: UdpRoute[];
  /** The programs that mount users' buckets. */
  storage: {
    /** Their group, by which the rules match them. */
    gid: number;
    /** Resolvers that they may use, IPv4 or IPv6. */
    resolvers: string[];
    /** CIDR ranges in addition to the public internet that they may reach. */
    allowedRanges: readonly string[];
    /** Addresses that neither they nor any sandbox may ever reach. */
    ownServices: readonly OwnService[];
  };
}

export interface Server {
  address: string;
  port: number;
}

/** A UDP port of the host that is forwarded to a UDP port of a sandbox. */
export interface UdpRoute {
  hostPort: number;
  address: string;
  servicePort: number;
}

/** The maximum number of open connections of one sandbox. The same limit applies to flows to its UDP ports. */
const connectionsPerSandbox = 2048;
/** The maximum number of connections that it may open per second. */
const newConnectionsPerSecond = 1000;

/**
 * The rules of one copy, as input of `nft -f`. Applying them again replaces them atomically. They contain nothing about
 * single sandboxes: the source address of a packet must be the address that the host routes to its interface, and the
 * interface's group determines whether it may reach the internet. So a sandbox's start or end changes no rule.
 */
export function firewallRules(plan: FirewallPlan): string {
  const from = `iifname "${plan.interfacePrefix}*"`;
  const to = `oifname "${plan.interfacePrefix}*"`;
  const closed = [...closedIpv4Ranges, ...plan.hostNetworks].join(', ');
  const toResolvers = plan.resolvers.length > 0 ? `ip daddr { ${plan.resolvers.join(', ')} }` : null;
  const toServers = (verdict: string) =>
    plan.openServers
      .map(({ address, port }) => `    ip daddr ${address} meta l4proto { tcp, udp } th dport ${port} ${verdict}\n`)
      .join('');
  const toServices = plan.hostServices
    .map(({ address, port }) => `    ip daddr ${address} tcp dport ${port} goto metered\n`)
    .join('');
  // Packets of other sandboxes never reach this rule, because the chain for outgoing packets drops them.
  const fromNetworks =
    plan.routedNetworks.length > 0
      ? `    ${to} ct state new meta l4proto tcp ip saddr { ${plan.routedNetworks.join(', ')} } accept\n`
      : '';
  const pace = plan.bandwidthMbps ? paceRules(plan.bandwidthMbps, from, to) : { sets: '', rules: '' };
  const udpRange = plan.udpRange
    ? `  set udp_range { type inet_service; flags interval; elements = { ${plan.udpRange.first}-${plan.udpRange.last} } }\n`
    : '';
  const dns = toResolvers
    ? ['udp', 'tcp'].map((protocol) => `    ${toResolvers} ${protocol} dport 53 accept`).join('\n')
    : '';
  return `table inet ${plan.table}
delete table inet ${plan.table}
table inet ${plan.table} {
  set connections { type ipv4_addr; size 65535; flags dynamic; }
  set openings { type ipv4_addr; size 65535; flags dynamic, timeout; timeout 10s; }
${pace.sets}${udpRange}  map udp_routes { type inet_service : ipv4_addr . inet_service; }
  set udp_routed { type ipv4_addr . inet_service; }
  set udp_flows { type ipv4_addr; size 65535; flags dynamic; }
  set closed { type ipv4_addr; flags interval; auto-merge; elements = { ${closed} }; }

  chain prerouting {
    type filter hook prerouting priority raw; policy accept;
    ${from} jump checked
  }
  chain checked {
    meta nfproto != ipv4 drop
    fib saddr . iif oif missing drop
  }
  chain input {
    type filter hook input priority filter; policy accept;
    ${from} jump udp_replies
    ${from} ct state established,related accept
    ${from} ct state new jump to_host
    ${from} goto refused
  }
  chain to_host {
${toServices}    iifgroup != ${plan.internetGroup} return
${toServers('goto metered')}  }
  chain forward {
    type filter hook forward priority filter; policy accept;
${pace.rules}    ${from} jump udp_replies
    ${from} jump outward
    ${to} ct direction original ct status dnat meta l4proto udp jump udp_requests
    ${to} ct state established,related accept
${fromNetworks}    ${to} goto refused
  }
  chain outward {
    ct state established,related accept
    ct state != new drop
    iifgroup != ${plan.internetGroup} goto refused
    ${to} goto refused
    jump counted
${dns}
${toServers('accept')}${toOwnServices(plan.storage.ownServices.filter(({ address, isInner }) => isInner && address !== 'local'))}    ip daddr @closed goto refused
    accept
  }
  chain counted {
    update @openings { ip saddr limit rate over ${newConnectionsPerSecond}/second burst ${newConnectionsPerSecond} packets } drop
    add @connections { ip saddr ct count over ${connectionsPerSandbox} } drop
  }
  chain metered {
    jump counted
    accept
  }
  chain udp_requests {
    ct state new add @udp_flows { ip daddr ct count over ${connectionsPerSandbox} } drop
    meta l4proto udp ip daddr . ct original proto-dst @udp_routed accept
    drop
  }
  chain udp_replies {
    ct direction reply ct status dnat meta l4proto udp ip saddr . ct original proto-dst != @udp_routed drop
  }
  chain output {
    type filter hook output priority filter; policy accept;
    ip daddr ${plan.subnet} ct direction original ct status dnat meta l4proto udp jump udp_requests
  }
  chain storage {
    type filter hook output priority filter; policy accept;
    meta skgid != ${plan.storage.gid} accept
    ct state established,related accept
${toNameServers(plan.storage.resolvers)}    meta l4proto != tcp goto refused
    ip daddr ${plan.subnet} goto refused
${toOwnServices(plan.storage.ownServices)}    ip daddr ${innerLoopbackAddress} goto refused
${toAllowed(plan.storage.allowedRanges)}    fib daddr type local goto refused
    ip daddr @closed goto refused
    meta nfproto ipv6 ip6 daddr != ${publicIpv6Range} goto refused
    ip6 daddr { ${closedIpv6Ranges.join(', ')} } goto refused
  }
  chain refused {
    meta l4proto tcp reject with tcp reset
    reject with icmpx admin-prohibited
  }
  chain postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr ${plan.subnet} oifname != "${plan.interfacePrefix}*" masquerade
  }
  chain udp_in {
    type nat hook prerouting priority dstnat; policy accept;
    fib daddr type local dnat ip to udp dport map @udp_routes
  }
  chain udp_from_host {
    type nat hook output priority -100; policy accept;
    ip daddr != 127.0.0.0/8 fib daddr type local dnat ip to udp dport map @udp_routes
  }
}
${udpRouteRules(plan)}`;
}

const family = (address: string) => (address.includes(':') ? 'ip6' : 'ip');
const toNameServers = (resolvers: readonly string[]) =>
  resolvers.map((each) => `    ${family(each)} daddr ${each} meta l4proto { tcp, udp } th dport 53 accept\n`).join('');
const toOwnServices = (services: readonly OwnService[]) =>
  services
    .map(({ address, port }) => {
      const to = address === 'local' ? 'fib daddr type local' : `${family(address)} daddr ${address}`;
      return `    ${to} tcp dport ${port} goto refused\n`;
    })
    .join('');
const toAllowed = (ranges: readonly string[]) =>
  ranges.map((range) => `    ${family(range)} daddr ${range} accept\n`).join('');

/**
 * Replaces the port mappings atomically, as input of `nft -f`. An accepted flow ends with its mapping, because each of
 * its packets is checked against the set.
 */
export function udpRouteRules({ table, udpRoutes }: Pick<FirewallPlan, 'table' | 'udpRoutes'>): string {
  const flushed = `flush map inet ${table} udp_routes\nflush set inet ${table} udp_routed\n`;
  if (udpRoutes.length === 0) return flushed;
  const routes = udpRoutes.map(({ hostPort, address, servicePort }) => `${hostPort} : ${address} . ${servicePort}`);
  const routed = udpRoutes.map(({ hostPort, address }) => `${address} . ${hostPort}`);
  return `${flushed}add element inet ${table} udp_routes { ${routes.join(', ')} }
add element inet ${table} udp_routed { ${routed.join(', ')} }
`;
}

/**
 * Drops packets to and from other machines above a rate for each sandbox, so that senders slow down. Packets between
 * the host and its sandboxes, such as the gateway's, do not count.
 */
function paceRules(mbps: number, from: string, to: string): { sets: string; rules: string } {
  const bytesPerSecond = Math.ceil((mbps * 1e6) / 8);
  // The kernel allows the packets of one second at once, and the burst in addition.
  const limit = `limit rate over ${bytesPerSecond} bytes/second burst 65536 bytes`;
  const set = 'type ipv4_addr; size 65535; flags dynamic, timeout; timeout 10s;';
  return {
    sets: `  set sending { ${set} }\n  set receiving { ${set} }\n`,
    rules: `    ${from} update @sending { ip saddr ${limit} } drop\n    ${to} update @receiving { ip daddr ${limit} } drop\n`,
  };
}
