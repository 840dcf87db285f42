import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { ClusterNode } from './cluster-node.ts';
import type { ClusterPlace } from './cluster-place.ts';

const run = promisify(execFile);
const cutTable = 'cut';

interface LinkedNode {
  node: ClusterNode;
  place: ClusterPlace;
}

const linkTo = ({ place }: Pick<LinkedNode, 'place'>) => `peer${place.number}`;

/** Connects two nodes with a link, and adds routes to the other node's address and pods. It ends with either node. */
export async function joinNodes(one: LinkedNode, other: LinkedNode): Promise<void> {
  const pairs = [[one, other] as const, [other, one] as const];
  const [here, there] = pairs.map(([{ node }, far]) => ['name', linkTo(far), 'netns', `${node.pid}`]);
  await run('ip', ['link', 'add', ...here!, 'type', 'veth', 'peer', ...there!]);
  for (const [{ node, place }, { place: far }] of pairs) {
    const link = linkTo({ place: far });
    // The link has the node's address, because kube-proxy may choose the sender's address by the link.
    await node.run('ip', ['address', 'add', `${place.network.node}/32`, 'dev', link]);
    await node.run('ip', ['link', 'set', link, 'up']);
    const from = ['dev', link, 'src', place.network.node];
    await node.run('ip', ['route', 'add', `${far.network.node}/32`, ...from]);
    await node.run('ip', ['route', 'add', far.network.pods, 'via', far.network.node, ...from]);
  }
}

/** Drops every packet between a node and all others, including this machine. Programs and pods of the node continue. */
export async function cutOff(node: ClusterNode): Promise<void> {
  const drop = (which: string) => ['"eth0"', '"peer*"'].map((link) => `${which} ${link} drop;`).join(' ');
  const rules = `table inet ${cutTable} {
    chain in { type filter hook prerouting priority -400; ${drop('iifname')} }
    chain out { type filter hook postrouting priority 400; ${drop('oifname')} }
  }`;
  await node.run('nft', [rules]);
}

export async function cutNoMore(node: ClusterNode): Promise<void> {
  await node.run('nft', ['delete', 'table', 'inet', cutTable]);
}
