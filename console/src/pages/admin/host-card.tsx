import type { DataOf } from '../../api/client.ts';
import { useChange } from '../../api/queries.ts';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { Meter } from '../../components/meter.tsx';
import { useNotice } from '../../components/notices.tsx';
import { Section } from '../../components/page.tsx';
import { Ago, Facts, Status, Text } from '../../components/values.tsx';
import { formatCount, formatMegabytes, formatNumber } from '../../format/numbers.ts';

export type Host = DataOf<'listHosts'>['hosts'][number];

/** A host with its room, its sandboxes, and its drain. */
export function HostCard({ host }: { host: Host }) {
  const { free, capacity } = host;
  const sandboxes = Object.entries(host.sandboxes);
  return (
    <Section
      title={host.host_id}
      actions={host.draining_since === null ? <Drain host={host} /> : <Undrain host={host} />}
    >
      <Pressure host={host} />
      {free !== null && host.memory_mb_total !== null && (
        <Meter
          label="Memory taken"
          used={host.memory_mb_total - free.memory_mb}
          limit={host.memory_mb_total}
          format={formatMegabytes}
        />
      )}
      <Facts
        rows={[
          ['State', <Status key="state" status={host.state} />],
          ['Region', <Text key="region">{host.region}</Text>],
          host.draining_since !== null && ['Draining since', <Ago key="since" at={host.draining_since} />],
          ['Sandboxes', sandboxes.map(([status, count]) => `${formatCount(count)} ${status}`).join(', ') || 'None'],
          [
            'Room for more',
            free === null
              ? 'Not measured yet'
              : `${formatNumber(free.cpu)} cores, ${formatRoom(free.memory_mb)} memory, ${formatRoom(free.disk_mb)} disk`,
          ],
          ['Limit of the sizes of all sandboxes', formatCapacity(capacity)],
          ['Measured', <Ago key="measured" at={host.measured_at} />],
          ['Its lease ends', <Ago key="lease" at={host.lease_expires_at} />],
        ]}
      />
    </Section>
  );
}

/** Less than none: the host takes back what it has promised. */
const formatRoom = (megabytes: number) =>
  megabytes < 0 ? `${formatMegabytes(-megabytes)} too little` : formatMegabytes(megabytes);

function formatCapacity({ cpu, memory_mb, disk_gb }: Host['capacity']): string {
  const limits = [
    cpu === null ? null : `${formatCount(cpu)} cores`,
    memory_mb === null ? null : `${formatMegabytes(memory_mb)} memory`,
    disk_gb === null ? null : `${formatMegabytes(disk_gb * 1024)} disk`,
  ].filter((limit) => limit !== null);
  return limits.length > 0 ? limits.join(', ') : 'None: only their use counts';
}

/** Why the host takes no more sandboxes, beside its state. */
function Pressure({ host: { short_of: shortOf, full_disk: fullDisk } }: { host: Host }) {
  if (shortOf.length === 0 && fullDisk === null) return null;
  return (
    <p className="problem">
      {shortOf.length > 0 && `It takes no more sandboxes: there is too little ${shortOf.join(' and ')}. `}
      {fullDisk !== null && `Its ${fullDisk} disk is nearly full.`}
    </p>
  );
}

function Drain({ host: { host_id: id } }: { host: Host }) {
  const drain = useChange('drainHost', ['listHosts']);
  const notify = useNotice();
  return (
    <ConfirmedButton
      label="Drain"
      object={id}
      what="It takes no more sandboxes and resumes none of its paused ones. Those that run continue until their timeout. The command drain-host --pause also pauses them."
      run={() => drain.mutateAsync({ path: { host_id: id } })}
      onDone={() => notify(`${id} is draining`)}
    />
  );
}

function Undrain({ host: { host_id: id } }: { host: Host }) {
  const undrain = useChange('undrainHost', ['listHosts']);
  const notify = useNotice();
  return (
    <ConfirmedButton
      label="Undrain"
      object={id}
      what="It takes sandboxes again. Its paused ones stay paused until they are resumed."
      run={() => undrain.mutateAsync({ path: { host_id: id } })}
      onDone={() => notify(`${id} takes sandboxes again`)}
    />
  );
}
