import { type FormEvent, useState } from 'react';
import { type ApiError, apiUrl, call } from '../api/client.ts';
import { useRead } from '../api/queries.ts';
import type { Session } from '../api/session.ts';
import { visibleText } from '../format/text.ts';
import { Dialog } from './dialog.tsx';
import { Problem } from './problem.tsx';

/**
 * The sign-in of a page that needs one.
 * @param props.again who was signed in before: the page stays below, and only the same person may go on with it
 */
export function SignIn(props: { again?: Session; error?: string | undefined; onDone: () => void }) {
  const content = <SignInForm {...props} />;
  if (props.again) {
    return (
      <Dialog title="Your session has ended" onClose={() => window.location.reload()}>
        <p>Sign in again to go on where you were.</p>
        {content}
      </Dialog>
    );
  }
  return (
    <main className="alone">
      <h1>Sign in</h1>
      {content}
    </main>
  );
}

/** What an identity provider's refusal means; the others are in the guide. */
const refusals: Readonly<Record<string, string>> = {
  sign_in_declined: 'The sign-in was cancelled.',
  not_invited: 'Nobody has invited this address. Ask a root user of your account.',
  email_not_verified: 'The identity provider has not verified this e-mail address.',
  user_disabled: 'This user is disabled.',
  account_suspended: 'The account is suspended.',
};

function SignInForm(props: { again?: Session; error?: string | undefined; onDone: () => void }) {
  const [failure, setFailure] = useState<ApiError | null>(null);
  const [isSending, setSending] = useState(false);
  const providers = useRead('listIdentityProviders').data?.providers ?? [];
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const text = (name: string) => String(given.get(name) ?? '');
    setSending(true);
    setFailure(null);
    try {
      await call('startSession', { body: { email: text('email'), password: text('password') } });
      const session = props.again && (await call('getSession'));
      // What stands on the page belongs to the person of before.
      if (session && session.user_id !== props.again?.user_id) window.location.assign(document.baseURI);
      else props.onDone();
    } catch (error) {
      setFailure(error as ApiError);
    } finally {
      setSending(false);
    }
  };
  const here = window.location.pathname.slice(new URL(document.baseURI).pathname.length - 1) + window.location.search;
  return (
    <>
      {props.error && (
        <p className="problem" role="alert">
          {refusals[props.error] ?? 'The sign-in did not work.'} Code <code>{visibleText(props.error)}</code>
        </p>
      )}
      <form className="body-form" onSubmit={submit}>
        <div className="field">
          <label htmlFor="email">E-mail</label>
          <input
            id="email"
            name="email"
            type="email"
            autoComplete="username"
            required
            defaultValue={props.again?.email}
          />
        </div>
        <div className="field">
          <label htmlFor="password">Password</label>
          <input id="password" name="password" type="password" autoComplete="current-password" required />
        </div>
        {failure && <Problem error={failure} />}
        <footer className="form-footer">
          <button type="submit" className="primary" disabled={isSending}>
            {isSending ? 'Signing in …' : 'Sign in'}
          </button>
        </footer>
      </form>
      {providers.map(({ id, label, start_path }) => (
        <a
          key={id}
          className="button"
          href={apiUrl(start_path, { return_to: here.startsWith('/sign-in') ? '/' : here })}
        >
          Sign in with {label}
        </a>
      ))}
      {!props.again && (
        <>
          <p>
            <a href="forgot-password">Forgot your password?</a>
          </p>
          <p className="soft">
            <a href={apiUrl('/guide/console')}>The first sign-in</a> · <a href={apiUrl('/guide')}>Guide</a> ·{' '}
            <a href={apiUrl('/docs')}>API reference</a>
          </p>
        </>
      )}
    </>
  );
}
