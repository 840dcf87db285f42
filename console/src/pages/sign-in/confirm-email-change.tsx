import { useState } from 'react';
import { BodyForm } from '../../components/body-form.tsx';
import { usePageSearch } from '../../components/page-search.ts';

/** The page behind the link that confirms a new e-mail. Opening it changes nothing. */
export function Page() {
  const [{ token = '' }] = usePageSearch();
  const [isDone, setDone] = useState(false);
  return (
    <main className="alone">
      <h1>Confirm the new e-mail</h1>
      {isDone ? (
        <p>
          The e-mail is changed. <a href=".">To the console</a>
        </p>
      ) : (
        <BodyForm
          operation="confirmEmailChange"
          sections={[{ fields: [] }]}
          fixed={{ token }}
          submitLabel="Confirm"
          changes={[]}
          onDone={() => setDone(true)}
        />
      )}
    </main>
  );
}
