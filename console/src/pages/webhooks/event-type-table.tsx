import { useRead } from '../../api/queries.ts';
import { useIsRoot } from '../../api/session.ts';
import { Explained } from '../../components/body-inputs.tsx';
import { Loaded } from '../../components/loaded.tsx';

/** What each type of event means, with an example of what is sent. */
export function EventTypeTable() {
  const isRoot = useIsRoot();
  const read = useRead('listEventTypes');
  return (
    <Loaded read={read}>
      {({ event_types: types }) => (
        <>
          <p>
            Each event has an <code>id</code>, a <code>type</code>, a <code>timestamp</code>, and the <code>data</code>{' '}
            that is shown here. The same event can arrive twice, with the same <code>id</code>.
            {isRoot ? ' Events of the account go only to webhooks for all users.' : ''}
          </p>
          <div className="table-frame">
            <table>
              <caption className="hidden">Types of events</caption>
              <thead>
                <tr>
                  <th scope="col">Type</th>
                  <th scope="col">When</th>
                  <th scope="col">Data</th>
                </tr>
              </thead>
              <tbody>
                {types
                  .filter(({ scope }) => isRoot || scope === 'user')
                  .map(({ type, description, example }) => (
                    <tr key={type}>
                      <td data-label="Type">
                        <code>{type}</code>
                      </td>
                      <td data-label="When">
                        <Explained text={description} />
                      </td>
                      <td data-label="Data">
                        <details>
                          <summary aria-label={`Example of ${type}`}>Example</summary>
                          <pre>{JSON.stringify(example, null, 2)}</pre>
                        </details>
                      </td>
                    </tr>
                  ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </Loaded>
  );
}
