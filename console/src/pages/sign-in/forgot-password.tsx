import { useState } from 'react';
import { BodyForm } from '../../components/body-form.tsx';

export function Page() {
  const [isSent, setSent] = useState(false);
  return (
    <main className="alone">
      <h1>Forgot your password?</h1>
      {isSent ? (
        <p>If a user has this e-mail, a link to set a new password has been sent there. It works for 30 minutes.</p>
      ) : (
        <>
          <p>You get an e-mail with a link to set a new password.</p>
          <BodyForm
            operation="forgotPassword"
            sections={[{ fields: ['email'] }]}
            labels={{ email: 'E-mail' }}
            submitLabel="Send the link"
            changes={[]}
            onDone={() => setSent(true)}
          />
        </>
      )}
      <p>
        <a href="sign-in">To the sign-in</a>
      </p>
    </main>
  );
}
