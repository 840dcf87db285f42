import { useState } from 'react';
import { BodyForm } from '../../components/body-form.tsx';
import { usePageSearch } from '../../components/page-search.ts';

/** The page behind the link to set a new password. */
export function Page() {
  const [{ token = '' }] = usePageSearch();
  const [isDone, setDone] = useState(false);
  return (
    <main className="alone">
      <h1>Set a new password</h1>
      {isDone ? (
        <p>
          The password is set. <a href="sign-in">Sign in</a>
        </p>
      ) : (
        <BodyForm
          operation="resetPassword"
          sections={[{ fields: ['new_password'] }]}
          labels={{ new_password: 'New password' }}
          fixed={{ token }}
          submitLabel="Set the password"
          changes={[]}
          onDone={() => setDone(true)}
        />
      )}
    </main>
  );
}
