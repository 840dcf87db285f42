/** What the firewall of one copy must know; none of it changes while sandboxes come and go. */
export interface FirewallPlan {
  table: string;
  /** Interfaces of this copy's sandboxes begin with this. */
  interfacePrefix: string;
  /** Interface group of the sandboxes that may reach the internet. */
  internetGroup: number;
  subnet: string;
  resolvers: string[];
  /** Networks that the host is itself a part of. */
  hostNetworks: string[];
}

/** What is no public internet: private, shared, link-local with its metadata services, loopback, multicast, reserved. */
const closedNetworks = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '224.0.0.0/3',
];

/** Connections that one sandbox may have open, and in the opening each second. */
const connectionsPerSandbox = 2048;
const newConnectionsPerSecond = 1000;

/**
 * The rules of one copy, as input of `nft -f`; applying it again replaces them at once. They name no sandbox: a packet's
 * source must be the address that the host routes to the interface it came from, and whether it may go out is told by the
 * interface's group. So nothing is added or left behind for each sandbox.
 */
export function firewallRules(plan: FirewallPlan): string {
  const from = `iifname "${plan.interfacePrefix}*"`;
  const to = `oifname "${plan.interfacePrefix}*"`;
  const closed = [...closedNetworks, ...plan.hostNetworks].join(', ');
  const toResolvers = plan.resolvers.length > 0 ? `ip daddr { ${plan.resolvers.join(', ')} }` : null;
  const dns = toResolvers
    ? ['udp', 'tcp'].map((protocol) => `    ${toResolvers} ${protocol} dport 53 accept`).join('\n')
    : '';
  return `table inet ${plan.table}
delete table inet ${plan.table}
table inet ${plan.table} {
  set connections { type ipv4_addr; size 65535; flags dynamic; }
  set openings { type ipv4_addr; size 65535; flags dynamic, timeout; timeout 10s; }
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
    ${from} ct state established,related accept
    ${from} goto refused
  }
  chain forward {
    type filter hook forward priority filter; policy accept;
    ${from} jump outward
    ${to} ct state established,related accept
    ${to} goto refused
  }
  chain outward {
    ct state established,related accept
    ct state != new drop
    iifgroup != ${plan.internetGroup} goto refused
    ${to} goto refused
    update @openings { ip saddr limit rate over ${newConnectionsPerSecond}/second burst ${newConnectionsPerSecond} packets } drop
    add @connections { ip saddr ct count over ${connectionsPerSandbox} } drop
${dns}
    ip daddr @closed goto refused
    accept
  }
  chain refused {
    meta l4proto tcp reject with tcp reset
    reject with icmpx admin-prohibited
  }
  chain postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr ${plan.subnet} oifname != "${plan.interfacePrefix}*" masquerade
  }
}
`;
}
