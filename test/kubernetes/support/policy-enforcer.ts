import { execFile } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { promisify } from 'node:util';
import { ciliumPrograms, kubernetesPrograms } from '../../../ops/setup/toolchain/locations.mjs';
import { type ClusterNode, flags, type NodeProgram } from './cluster-node.ts';
import type { ClusterPlace } from './cluster-place.ts';

const run = promisify(execFile);
/** The folder of Debian's network plugins. */
export const cniPlugins = '/usr/lib/cni';
export const ciliumPlugin = { type: 'cilium-cni', 'chaining-mode': 'generic-veth' };
/** The address of Cilium's own link. The tests do not use it. */
const linkLocal = '169.254.23.1';

/**
 * Makes a folder with Debian's network plugins and Cilium's plugin. Cilium's is called last for each pod and attaches
 * its programs to the pod's link.
 */
export function pluginsWithCilium({ folder }: ClusterPlace): string {
  const plugins = path.join(folder, 'cni-plugins');
  fs.mkdirSync(plugins);
  for (const name of fs.readdirSync(cniPlugins)) fs.symlinkSync(path.join(cniPlugins, name), path.join(plugins, name));
  fs.symlinkSync(ciliumPrograms().cni, path.join(plugins, 'cilium-cni'));
  return plugins;
}

/** Settings of the whole machine that Cilium changes. It gets its own copies instead. */
const machineSettings = {
  'kernel/unprivileged_bpf_disabled': '2',
  'kernel/timer_migration': '0',
};

/**
 * Makes Cilium's custom resource definitions. They must exist before the first agent starts, and the operator that
 * usually makes them does not run here.
 * @param kubeConfig the kubeconfig of an administrator
 */
export async function makeCiliumKinds(kubeConfig: string): Promise<void> {
  await run(kubernetesPrograms().kubectl, ['--kubeconfig', kubeConfig, 'create', '--filename', ciliumPrograms().crds]);
}

/**
 * Starts Cilium's agent on one node. It enforces NetworkPolicies for pods whose network other plugins make. It needs no
 * operator, because the other plugins choose the addresses.
 * @param kubeConfig the kubeconfig of an administrator
 */
export async function startCilium(
  node: ClusterNode,
  { place, nodeName, kubeConfig }: { place: ClusterPlace; nodeName: string; kubeConfig: string },
): Promise<NodeProgram> {
  const programs = ciliumPrograms();
  const options = {
    'k8s-kubeconfig-path': kubeConfig,
    'lib-dir': programs.dir,
    'state-dir': '/run/cilium',
    'bpf-root': '/sys/fs/bpf',
    'cni-chaining-mode': 'generic-veth',
    'cni-exclusive': 'false',
    ipam: 'delegated-plugin',
    'local-router-ipv4': linkLocal,
    'enable-ipv4': 'true',
    'enable-ipv6': 'false',
    'routing-mode': 'native',
    'enable-ipv4-masquerade': 'false',
    'enable-local-node-route': 'false',
    'install-iptables-rules': 'false',
    'kube-proxy-replacement': 'false',
    'bpf-lb-sock': 'false',
    'identity-allocation-mode': 'crd',
    'enable-endpoint-health-checking': 'false',
    'enable-health-checking': 'false',
    'enable-hubble': 'false',
    'enable-l7-proxy': 'false',
    'enable-envoy-config': 'false',
    devices: 'eth0',
  };
  const agent = node.startWithSettings(
    'cilium',
    'env',
    [`PATH=${programs.path}:${process.env.PATH}`, `K8S_NODE_NAME=${nodeName}`, programs.agent, ...flags(options)],
    { settings: machineSettings, folder: path.join(place.folder, 'cilium-settings') },
  );
  await agent.whenReady(() => isHealthy(node.inside('/run/cilium/cilium.sock')));
  return agent;
}

async function isHealthy(socketPath: string): Promise<boolean> {
  const answer = await new Promise<http.IncomingMessage>((resolve, reject) => {
    http.get({ socketPath, path: '/v1/healthz' }, resolve).once('error', reject);
  });
  answer.resume();
  return answer.statusCode === 200;
}
