import { Link } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Figure } from '../../components/figure.tsx';
import { Filters } from '../../components/list.tsx';
import { Empty, Loaded } from '../../components/loaded.tsx';
import { PageBody } from '../../components/page.tsx';
import { usePageSearch } from '../../components/page-search.ts';
import { Ago, At, Text } from '../../components/values.tsx';
import { formatCount } from '../../format/numbers.ts';
import { meaningOfDifference } from './difference-kinds.ts';

type Comparison = DataOf<'getLatestReconciliation'>;
type Difference = Comparison['differences'][number];

/** The result of the nightly comparison of money, for operators. */
export function Page() {
  const read = useRead('getLatestReconciliation');
  return (
    <PageBody title="Comparison">
      <p>
        Every night at 02:30 UTC, the platform compares invoices, its ledger, and what the payment processor has. It
        corrects nothing: somebody decides which side is right.
      </p>
      {read.error?.code === 'not_found' ? (
        <Empty>No comparison has ended yet.</Empty>
      ) : (
        <Loaded read={read}>{(comparison) => <Result comparison={comparison} />}</Loaded>
      )}
    </PageBody>
  );
}

function Result({ comparison }: { comparison: Comparison }) {
  const [search] = usePageSearch();
  const { differences, difference_count: count } = comparison;
  const kinds = [...new Set(differences.map(({ kind }) => kind))];
  const shown = differences.filter(({ kind }) => !search.kind || kind === search.kind);
  return (
    <>
      <div className="figures">
        <Figure label="Differences" value={formatCount(count)} />
        <Figure label="The comparison ended" value={<Ago at={comparison.ended_at} />} />
      </div>
      <p className="soft">
        All invoices and the whole ledger were compared.{' '}
        {comparison.reads_processor ? (
          <>
            Charges from <At at={comparison.charges_from} /> to <At at={comparison.charges_until} /> were also compared
            with the payment processor.
          </>
        ) : (
          'The payment processor was not asked.'
        )}
      </p>
      {count === 0 ? (
        <Empty>Everything agrees.</Empty>
      ) : (
        <>
          <Filters
            filters={[{ name: 'kind', label: 'Kind', options: kinds.map((kind) => [kind, kind.replaceAll('_', ' ')]) }]}
          />
          {count > differences.length && (
            <p className="note">
              These are {formatCount(differences.length)} of {formatCount(count)}. The command list-differences shows
              all.
            </p>
          )}
          <Differences differences={shown} />
        </>
      )}
    </>
  );
}

function Differences({ differences }: { differences: readonly Difference[] }) {
  return (
    <div className="table-frame">
      <table>
        <caption className="hidden">Differences</caption>
        <thead>
          <tr>
            <th scope="col">Difference</th>
            <th scope="col">Object</th>
            <th scope="col">Account</th>
            <th scope="col">In the platform</th>
            <th scope="col">In the ledger or at the processor</th>
          </tr>
        </thead>
        <tbody>
          {differences.map((difference) => (
            <tr key={`${difference.kind} ${difference.object_id} ${difference.expected} ${difference.found}`}>
              <td data-label="Difference">
                <div>
                  {difference.kind.replaceAll('_', ' ')}
                  <p className="soft">{meaningOfDifference[difference.kind]}</p>
                </div>
              </td>
              <td data-label="Object">
                <ObjectOf id={difference.object_id} />
              </td>
              <td data-label="Account">
                <Text>{difference.account_id}</Text>
              </td>
              <td data-label="In the platform">
                <Text>{difference.expected}</Text>
              </td>
              <td data-label="In the ledger or at the processor">
                <Text>{difference.found}</Text>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function ObjectOf({ id }: { id: string }) {
  if (!/^inv-[a-z0-9]+$/.test(id)) return <Text>{id}</Text>;
  return (
    <Link to="/billing/invoices/$invoiceId" params={{ invoiceId: id }}>
      {id}
    </Link>
  );
}
