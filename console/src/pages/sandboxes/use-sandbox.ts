import { type UseQueryResult, useIsMutating, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useRef } from 'react';
import { type ApiError, type BodyOf, call, type DataOf, type InputOf, type OperationId } from '../../api/client.ts';
import { queryClient, queryKey } from '../../api/queries.ts';
import { isChanging, type Sandbox, type SandboxStatus } from './sandbox-words.ts';

/** No event tells of the steps within a start or an end. */
const changingMs = 1000;
/** Its times go on while it runs, and others may change its timeout. */
const quietMs = 30_000;

/** The sandbox, read again as often as it may have changed. */
export function useSandbox(sandboxId: string): UseQueryResult<Sandbox, ApiError> {
  const input = { path: { sandbox_id: sandboxId } };
  return useQuery<Sandbox, ApiError>({
    queryKey: queryKey('getSandbox', input),
    queryFn: ({ signal }) => call('getSandbox', input, signal),
    refetchInterval: ({ state: { data, error } }) => {
      if (!data || error?.status === 404) return false;
      return isChanging(data.status) ? changingMs : quietMs;
    },
  });
}

/** Operations whose replies a change of a sandbox makes old. */
export const sandboxReads: readonly OperationId[] = ['getSandbox', 'listSandboxes', 'listSandboxEvents'];

/** No event tells when the record of a deleted sandbox is removed, so lists are read again for a while. */
export function followDeletion(): void {
  for (const afterMs of [500, 2000, 10_000]) {
    window.setTimeout(() => {
      for (const each of ['listSandboxes', 'getSandboxStats', 'listProjectSandboxes'] as const) {
        void queryClient.invalidateQueries({ queryKey: [each] });
      }
    }, afterMs);
  }
}

const moveKey = (sandboxId: string) => ['moveSandbox', sandboxId];

type Move = 'pauseSandbox' | 'resumeSandbox' | 'restartSandbox' | 'terminateSandbox';

/**
 * A change of the status. The new one is shown at once; if the platform refuses, the one of before comes back.
 * @param shown the status until the platform tells the true one
 */
export function useMove<Id extends Move>(id: Id, sandboxId: string, shown: SandboxStatus) {
  const client = useQueryClient();
  const path = { sandbox_id: sandboxId };
  const key = queryKey('getSandbox', { path });
  return useMutation<DataOf<Id>, ApiError, BodyOf<Id> | undefined, Sandbox | undefined>({
    mutationKey: moveKey(sandboxId),
    mutationFn: (body) => call(id, { path, ...(body !== undefined && { body }) } as unknown as InputOf<Id>),
    onMutate: async () => {
      await client.cancelQueries({ queryKey: key });
      const before = client.getQueryData<Sandbox>(key);
      if (before) client.setQueryData<Sandbox>(key, { ...before, status: shown, substatus: null, reason: null });
      return before;
    },
    onError: (_error, _body, before) => client.setQueryData(key, before),
    onSettled: () => Promise.all(sandboxReads.map((each) => client.invalidateQueries({ queryKey: [each] }))),
  });
}

/** The status without a change that is not answered yet, so that the form that asked for it stays until then. */
export function useSettledStatus({ sandbox_id, status }: Pick<Sandbox, 'sandbox_id' | 'status'>): SandboxStatus {
  const isMoving = useIsMutating({ mutationKey: moveKey(sandbox_id) }) > 0;
  const settled = useRef(status);
  if (!isMoving) settled.current = status;
  return settled.current;
}
