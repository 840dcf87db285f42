import { execFile } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { promisify } from 'node:util';
import { ciliumPrograms, kubernetesPrograms } from '../../../ops/setup/toolchain/locations.mjs';
import { type ClusterNode, flags, type NodeProgram } from './cluster-node.ts';
import type { ClusterPlace } from './cluster-place.ts';

const run = promisify(execFile);
/** Debian's plugins. */
export const cniPlugins = '/usr/lib/cni';
export const ciliumPlugin = { type: 'cilium-cni', 'chaining-mode': 'generic-veth' };
/** The address of Cilium's own link, which nothing here uses. */
const linkLocal = '169.254.23.1';

/**
 * Folder with the plugins of pods' networks: Debian's, and Cilium's, which is called after them for each pod and puts its
 * programs on the pod's link.
 */
export function pluginsWithCilium({ folder }: ClusterPlace): string {
  const plugins = path.join(folder, 'cni-plugins');
  fs.mkdirSync(plugins);
  for (const name of fs.readdirSync(cniPlugins)) fs.symlinkSync(path.join(cniPlugins, name), path.join(plugins, name));
  fs.symlinkSync(ciliumPrograms().cni, path.join(plugins, 'cilium-cni'));
  return plugins;
}

/** What Cilium sets on the whole machine; it finds files of its own in their place. */
const machineSettings = {
  'kernel/unprivileged_bpf_disabled': '2',
  'kernel/timer_migration': '0',
};

/**
 * Cilium's kinds of objects, once for a cluster, before its first agent: without its operator nothing else makes them.
 * @param kubeConfig a file, of somebody who may do everything
 */
export async function makeCiliumKinds(kubeConfig: string): Promise<void> {
  await run(kubernetesPrograms().kubectl, ['--kubeconfig', kubeConfig, 'create', '--filename', ciliumPrograms().crds]);
}

/**
 * Cilium's agent on one node, which enforces the NetworkPolicies of pods whose network other plugins make. It needs no
 * operator: other plugins choose the addresses.
 * @param kubeConfig a file, of somebody who may do everything
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
