import { useRead } from '../../api/queries.ts';
import { Figure } from '../../components/figure.tsx';
import { Empty, Loaded } from '../../components/loaded.tsx';
import { PageBody } from '../../components/page.tsx';
import { formatCount } from '../../format/numbers.ts';
import { type Host, HostCard } from './host-card.tsx';

const readEveryMs = 15_000;

const states: Readonly<Record<Host['state'], string>> = {
  ready: 'Ready: take sandboxes',
  draining: 'Draining: take none',
  away: 'Away: do not report',
  lost: 'Lost: their sandboxes were given up',
};

/** The machines that run sandboxes, for operators. */
export function Page() {
  const read = useRead('listHosts', {}, { everyMs: readEveryMs });
  return (
    <PageBody title="Hosts">
      <Loaded read={read}>
        {({ hosts }) =>
          hosts.length === 0 ? (
            <Empty>No host has reported yet. Start a host worker.</Empty>
          ) : (
            <>
              <div className="figures">
                {Object.entries(states).map(([state, label]) => (
                  <Figure
                    key={state}
                    label={label}
                    value={formatCount(hosts.filter((host) => host.state === state).length)}
                  />
                ))}
              </div>
              <div className="columns">
                {hosts.map((host) => (
                  <HostCard key={host.host_id} host={host} />
                ))}
              </div>
            </>
          )
        }
      </Loaded>
    </PageBody>
  );
}
