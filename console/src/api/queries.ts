import {
  keepPreviousData,
  QueryClient,
  type UseQueryResult,
  useMutation,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query';
import { ApiError, call, type DataOf, type InputOf, type OperationId } from './client.ts';

/** Read again only when an event says so, or when the reader comes back after this time. */
const freshMs = 30_000;

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: freshMs,
      retry: (failures, error) => failures < 2 && isTemporary(error),
      retryDelay: (failures, error) =>
        ((error instanceof ApiError && error.retryAfterSeconds) || 0) * 1000 || 500 * 2 ** failures,
      // The screen keeps the page of before while the next one loads.
      placeholderData: keepPreviousData,
    },
    mutations: { retry: false },
  },
});

/** Who would have to wait longer sees the reason and tries again. */
const longestWaitSeconds = 10;

function isTemporary(error: unknown): boolean {
  if (!(error instanceof ApiError) || error.code === 'payments_not_configured') return false;
  if ((error.retryAfterSeconds ?? 0) > longestWaitSeconds) return false;
  return error.status === 0 || error.status === 429 || error.status === 503;
}

/** The key of an operation's reply in the cache. Keys that begin with the operation belong to it. */
export function queryKey<Id extends OperationId>(id: Id, input: InputOf<Id> = {}): readonly unknown[] {
  return [id, input.path ?? {}, input.query ?? {}];
}

/** The reply of a reading operation. @param options.when false: not yet */
export function useRead<Id extends OperationId>(
  id: Id,
  input: InputOf<Id> = {},
  options: { when?: boolean; everyMs?: number } = {},
): UseQueryResult<DataOf<Id>, ApiError> {
  return useQuery<DataOf<Id>, ApiError>({
    queryKey: queryKey(id, input),
    queryFn: ({ signal }) => call(id, input, signal),
    enabled: options.when ?? true,
    ...(options.everyMs !== undefined && { refetchInterval: options.everyMs }),
  });
}

/**
 * A changing operation. When it has succeeded, the named operations are read again.
 * @param changes operations whose replies the change makes old
 */
export function useChange<Id extends OperationId>(id: Id, changes: readonly OperationId[]) {
  const client = useQueryClient();
  return useMutation<DataOf<Id>, ApiError, InputOf<Id>>({
    mutationFn: (input) => call(id, input),
    onSettled: () => Promise.all(changes.map((each) => client.invalidateQueries({ queryKey: [each] }))),
  });
}
