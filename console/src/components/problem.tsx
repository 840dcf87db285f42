import { ApiError } from '../api/client.ts';

/** What went wrong, with the code and the id that an operator needs to find the request. */
export function Problem(props: { error: unknown; onRetry?: () => void }) {
  const error = props.error instanceof ApiError ? props.error : null;
  return (
    <div className="problem" role="alert">
      <p>{error ? error.message : 'The page could not be shown'}</p>
      {error && error.details.length > 0 && (
        <ul>
          {error.details.map(({ path, reason }) => (
            <li key={path}>
              <code>{path}</code> {reason}
            </li>
          ))}
        </ul>
      )}
      <p className="problem-facts">
        Code <code>{error?.code ?? String(props.error)}</code>
        {error?.requestId && (
          <>
            {' · '}Request <code>{error.requestId}</code>
          </>
        )}
        {props.onRetry && (
          <>
            {' · '}
            <button type="button" className="link" onClick={props.onRetry}>
              Try again
            </button>
          </>
        )}
      </p>
    </div>
  );
}
