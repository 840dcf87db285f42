import type { V1Pod } from '@kubernetes/client-node';
import type { MountSlot } from '../../domain/sandboxes/object-storage.ts';
import type { SandboxPlace } from '../driver.ts';
import { agentPort } from '../sandbox-agent/agent-client.ts';
import { annotations } from './names.ts';
import { findAddress } from './pod-state.ts';

/** Whether the sandbox of a pod has become ready and its end was not reported yet. */
export const isReady = (pod: V1Pod) => pod.metadata?.annotations?.[annotations.phase] === 'ready';

/** @param pod a pod that has an address */
export const toSandboxPlace = (pod: V1Pod, from: SandboxPlace['from'], slots?: MountSlot[]): SandboxPlace => ({
  address: findAddress(pod)!,
  agentPort,
  from,
  ...(slots && { slots }),
});
