import type { V1ContainerState, V1Pod, V1PodStatus } from '@kubernetes/client-node';
import {
  findAddress,
  findPodEnd,
  findStartFailure,
  isDiskOnClosedNode,
  isUnschedulable,
  lacksCapacity,
} from '../../../runtime/kubernetes/pod-state.ts';

const pod = (status: Partial<V1PodStatus>, metadata: V1Pod['metadata'] = {}): V1Pod => ({ metadata, status });
const withState = (state: V1ContainerState, more: Partial<V1PodStatus> = {}, metadata: V1Pod['metadata'] = {}) =>
  pod({ ...more, containerStatuses: [{ name: 'sandbox', state } as never] }, metadata);
const running = { running: {} };
const disrupted = (reason: string) => ({ conditions: [{ type: 'DisruptionTarget', status: 'True', reason }] as never });

test.each<[string, V1Pod, string, number | null]>([
  ['its first process ended', withState({ terminated: { exitCode: 3 } }), 'exited', 3],
  ['killed for memory', withState({ terminated: { exitCode: 137, reason: 'OOMKilled' } }), 'out_of_memory', 137],
  ['evicted by the kubelet', pod({ phase: 'Failed', reason: 'Evicted' }), 'evicted', null],
  ['evicted over the API', withState(running, disrupted('EvictionByEvictionAPI'), deleted()), 'evicted', null],
  ['pre-empted', withState(running, disrupted('PreemptionByScheduler')), 'evicted', null],
  ['the node is away', withState(running, disrupted('DeletionByTaintManager'), deleted()), 'node_lost', null],
  ['deleted by hand', withState(running, {}, deleted()), 'deleted', null],
  ['deleted by hand, and ended', withState({ terminated: { exitCode: 143 } }, {}, deleted()), 'deleted', 143],
])('the reason of an end: %s', (_, ended, reason, exitCode) => {
  expect(findPodEnd(ended)).toMatchObject({ reason, exitCode });
  expect(findAddress(ended)).toBeNull();
});

test('a pod that runs or is starting has no end', () => {
  expect(findPodEnd(withState(running, { podIP: '10.0.0.9' }))).toBeNull();
  expect(findAddress(withState(running, { podIP: '10.0.0.9' }))).toBe('10.0.0.9');
  const waiting = withState({ waiting: { reason: 'PodInitializing' } }, { podIP: '10.0.0.9' });
  expect([findPodEnd(waiting), findAddress(waiting), findStartFailure(waiting)]).toEqual([null, null, null]);
});

test('the end of a pod has the last output of the command', () => {
  expect(findPodEnd(withState({ terminated: { exitCode: 1, message: 'no such file' } }))).toMatchObject({
    output: 'no such file',
  });
});

const waitingFor = (reason: string, message: string) => withState({ waiting: { reason, message } });
test.each<[string, V1Pod, string, boolean]>([
  ['a missing image', waitingFor('ErrImagePull', 'not found'), 'image_pull_failed', false],
  ['a registry that does not answer', waitingFor('ErrImagePull', 'i/o timeout'), 'image_pull_failed', true],
  ['an invalid image name', waitingFor('InvalidImageName', ''), 'image_pull_failed', false],
  ['a container that cannot be made', waitingFor('CreateContainerError', 'x'), 'start_failed', true],
  ['deleted meanwhile', withState(running, {}, deleted()), 'start_failed', true],
  ['ended meanwhile', withState({ terminated: { exitCode: 1 } }), 'runtime_exited', false],
  [
    'an image that does not fit',
    pod({ initContainerStatuses: [prepared('disk', 'cp: No space left on device')] }),
    'image_refused',
    false,
  ],
  ['a disk that cannot be prepared', pod({ initContainerStatuses: [prepared('disk', 'x')] }), 'start_failed', true],
])('why a pod does not start: %s', (_, starting, code, retryable) => {
  expect(findStartFailure(starting)).toMatchObject({ code, retryable });
});

const elsewhere = "1 node(s) didn't match PersistentVolume's node affinity";
const cordoned = '1 node(s) were unschedulable';
const lost = '1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }';
test.each<[string, string[], boolean]>([
  ['its node is cordoned', [elsewhere, cordoned], true],
  ['its node is away', [elsewhere, lost], true],
  [
    'its node is away, with the message of earlier schedulers',
    ['1 node(s) had volume node affinity conflict', lost],
    true,
  ],
  ['its zone has no node that takes pods', ['1 node(s) had no available volume zone', cordoned], true],
  ['its node is gone', [elsewhere], true],
  ['its node is full', [elsewhere, '1 Insufficient memory'], false],
  ['its node is full, or a cordoned one', [elsewhere, '1 Insufficient memory', cordoned], false],
  ['its disk is on no node yet, and all nodes are cordoned', [cordoned], false],
])('a closed node counts as the cause only if the disk is there and no node is full: %s', (_, reasons, isClosed) => {
  const message = `0/${reasons.length} nodes are available: ${reasons.join(', ')}.`;
  const scheduled = { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message };
  const waiting = pod({ conditions: [scheduled] as never });
  expect([isDiskOnClosedNode(waiting), isUnschedulable(waiting)]).toEqual([isClosed, true]);
  const placed = pod({ conditions: [{ ...scheduled, status: 'True', reason: undefined }] as never });
  expect([isDiskOnClosedNode(placed), isUnschedulable(placed)]).toEqual([false, false]);
});

function deleted(): V1Pod['metadata'] {
  return { deletionTimestamp: new Date() };
}

function prepared(name: string, message: string) {
  return { name, state: { terminated: { exitCode: 1, message } } } as never;
}

test('a pod lacks capacity when the nodes are full, but not while it waits for its disk', () => {
  const unschedulable = (message: string): V1Pod => ({
    status: { conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }] },
  });
  expect(lacksCapacity(unschedulable('0/1 nodes are available: 1 Insufficient memory.'))).toBe(true);
  expect(lacksCapacity(unschedulable('0/3 nodes are available: 3 Too many pods.'))).toBe(true);
  const nominated = unschedulable('0/1 nodes are available: 1 Insufficient memory.');
  nominated.status!.nominatedNodeName = 'node-1';
  expect(lacksCapacity(nominated)).toBe(false);
  const waits = '0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.';
  expect([lacksCapacity(unschedulable(waits)), lacksCapacity({ status: {} })]).toEqual([false, false]);
});
