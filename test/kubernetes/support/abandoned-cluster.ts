import { writeFileSync } from 'node:fs';
import { KubernetesCluster } from './kubernetes-cluster.ts';
import { pushBusybox, readyPod } from './pods.ts';

/**
 * Starts two clusters, one with a frozen pod, says where they are, and waits to be killed: for a test of what is left.
 */
const node = await KubernetesCluster.start();
const image = await pushBusybox(node);
const pod = await readyPod(node, {
  metadata: { name: 'frozen', namespace: 'default' },
  spec: { containers: [{ name: 'main', image, command: ['sleep', '1000000'] }], terminationGracePeriodSeconds: 0 },
});
const freezer = node.place.groups.folder('freezer');
writeFileSync(`${freezer}/kubepods/besteffort/pod${pod.metadata!.uid}/freezer.state`, 'FROZEN');
const apiOnly = await KubernetesCluster.start({ kind: 'api-only' });
console.log(JSON.stringify([node.place.number, apiOnly.place.number]));
setInterval(() => {}, 60_000);
