import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Problem } from './problem.tsx';

/** What a reply shows: its content, a sign that it loads, or why it could not be loaded. */
export function Loaded<Data>(props: { read: UseQueryResult<Data, Error>; children: (data: Data) => ReactNode }) {
  const { data, error, isPending, refetch } = props.read;
  if (data !== undefined) {
    return (
      <>
        {error && <Problem error={error} onRetry={() => refetch()} />}
        {props.children(data)}
      </>
    );
  }
  if (isPending) return <Loading />;
  return <Problem error={error} onRetry={() => refetch()} />;
}

export function Loading() {
  return (
    <div className="loading" role="status">
      Loading …
    </div>
  );
}

/** @param props.action what the person can do about it */
export function Empty(props: { children: ReactNode; action?: ReactNode }) {
  return (
    <div className="empty">
      <p>{props.children}</p>
      {props.action}
    </div>
  );
}
