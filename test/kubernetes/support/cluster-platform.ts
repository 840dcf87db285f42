import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { cacheDir } from '../../runtime/local-host.ts';
import { pushAgentImage } from './driver-host.ts';
import type { KubernetesCluster } from './kubernetes-cluster.ts';

const repository = path.resolve(import.meta.dirname, '../../..');

/**
 * Pushes the agent and the images of `base` and `code-interpreter` to the registry of a cluster, and returns the settings with which a platform of
 * this machine keeps its sandboxes on that cluster.
 * @param namespace exists already; the storage class has the same name
 */
export async function clusterPlatformSettings(
  cluster: KubernetesCluster,
  namespace: string,
): Promise<Record<string, string>> {
  const agentImage = await pushAgentImage(cluster.registry);
  const registry = { PLATFORM_REGISTRY: cluster.registry, PLATFORM_REGISTRY_INSECURE_HTTP: 'true' };
  const baseImage = await pushTemplateImage('base', registry);
  const interpreterImage = await pushTemplateImage('code-interpreter', registry);
  return {
    ...registry,
    PLATFORM_DRIVER: 'kubernetes',
    PLATFORM_BASE_IMAGE: baseImage,
    PLATFORM_KUBERNETES_TEMPLATE_IMAGES: `code-interpreter=${interpreterImage}`,
    PLATFORM_SANDBOX_SUBNET: cluster.place.network.pods,
    PLATFORM_KUBERNETES_KUBECONFIG: cluster.kubeConfigFile,
    PLATFORM_KUBERNETES_NAMESPACE: namespace,
    PLATFORM_KUBERNETES_AGENT_IMAGE: agentImage,
    PLATFORM_KUBERNETES_STORAGE_CLASS: namespace,
    PLATFORM_KUBERNETES_CLIENT_RANGES: '0.0.0.0/0',
    PLATFORM_KUBERNETES_ISOLATION: 'unchecked',
    PLATFORM_UDP_PORTS: '31000-31099',
    PLATFORM_HOST_PUBLIC_ADDRESS: cluster.place.network.node,
  };
}

/** As an operator does it. @returns the image's reference, with its digest */
async function pushTemplateImage(template: string, registry: Record<string, string>): Promise<string> {
  const words = ['ops/operator/admin.ts', 'push-template-image', '--template', template];
  const { stdout } = await promisify(execFile)(process.execPath, words, {
    cwd: repository,
    env: { PATH: process.env.PATH!, PLATFORM_CACHE_DIR: cacheDir(), ...registry },
  });
  return JSON.parse(stdout).image;
}
