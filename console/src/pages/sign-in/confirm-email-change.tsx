import { useState } from 'react';
import type { DataOf } from '../../api/client.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { usePageSearch } from '../../components/page-search.ts';
import { Text } from '../../components/values.tsx';

/** The page behind the link that confirms a new e-mail. Opening it changes nothing. */
export function Page() {
  const [{ token = '' }] = usePageSearch();
  const [outcome, setOutcome] = useState<DataOf<'confirmEmailChange'> | null>(null);
  return (
    <main className="alone">
      <h1>Confirm the new e-mail</h1>
      {outcome ? (
        <>
          <p>
            {outcome.status === 'completed' ? (
              'The e-mail is changed.'
            ) : (
              <>
                This address is confirmed. <Text>{outcome.pending_email}</Text> must confirm it, too.
              </>
            )}
          </p>
          <p>
            <a href=".">To the console</a>
          </p>
        </>
      ) : (
        <BodyForm
          operation="confirmEmailChange"
          sections={[{ fields: [] }]}
          fixed={{ token }}
          submitLabel="Confirm"
          changes={[]}
          onDone={setOutcome}
        />
      )}
    </main>
  );
}
