import { writeFileSync } from 'node:fs';
import { KubernetesCluster } from './kubernetes-cluster.ts';
import { pushBusybox, readyPod } from './pods.ts';

/**
 * This program starts two clusters, one of them with two nodes and a frozen pod on each, and prints the numbers of
 * their places. A test kills it to check that the remains are removed.
 */
const cluster = await KubernetesCluster.start();
const second = await cluster.addNode();
const image = await pushBusybox(cluster);
for (const nodeName of ['node-1', second.name]) {
  const pod = await readyPod(cluster, {
    metadata: { name: `frozen-on-${nodeName}`, namespace: 'default' },
    spec: {
      nodeName,
      containers: [{ name: 'main', image, command: ['sleep', '1000000'] }],
      terminationGracePeriodSeconds: 0,
    },
  });
  const freezer = cluster.findNode(pod).place.groups.folder('freezer');
  writeFileSync(`${freezer}/kubepods/besteffort/pod${pod.metadata!.uid}/freezer.state`, 'FROZEN');
}
const apiOnly = await KubernetesCluster.start({ kind: 'api-only' });
console.log(JSON.stringify([cluster, second, apiOnly].map(({ place }) => place.number)));
setInterval(() => {}, 60_000);
