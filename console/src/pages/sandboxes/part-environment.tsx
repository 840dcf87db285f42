import { useState } from 'react';
import { Empty } from '../../components/loaded.tsx';
import { Section } from '../../components/page.tsx';
import { commandLine, readReady } from '../../components/ready-command-input.tsx';
import { Copyable, Facts, Status, Text } from '../../components/values.tsx';
import { visibleText } from '../../format/text.ts';
import { MountsDialog } from './mounts-dialog.tsx';
import type { Sandbox } from './sandbox-words.ts';
import { useSettledStatus } from './use-sandbox.ts';

/** What its processes find. */
export function Environment({ sandbox }: { sandbox: Sandbox }) {
  return (
    <>
      <Variables sandbox={sandbox} />
      <ObjectStorage sandbox={sandbox} />
      <div className="columns">
        <Network sandbox={sandbox} />
        <Start sandbox={sandbox} />
      </div>
    </>
  );
}

/** Values are often secrets, so each is hidden until the person asks for it. */
function Variables({ sandbox: { env_vars } }: { sandbox: Sandbox }) {
  const [isKept, setKept] = useState(true);
  const variables = Object.entries(env_vars).sort(([one], [other]) => one.localeCompare(other));
  return (
    <Section
      title="Environment variables"
      actions={
        variables.length > 0 && (
          <button type="button" onClick={() => setKept(!isKept)}>
            {isKept ? 'Show all values' : 'Hide all values'}
          </button>
        )
      }
    >
      {variables.length === 0 ? (
        <Empty>It was made without variables of its own.</Empty>
      ) : (
        <Facts
          rows={variables.map(
            ([name, value]) =>
              [
                visibleText(name),
                <Copyable key={`${name} ${isKept}`} text={value} label={visibleText(name)} isSecret={isKept} />,
              ] as const,
          )}
        />
      )}
    </Section>
  );
}

function ObjectStorage({ sandbox }: { sandbox: Sandbox }) {
  const { object_storage: slots, object_storage_direct_mount: isDirect, object_storage_s3fs_path: path } = sandbox;
  const status = useSettledStatus(sandbox);
  const mounts = (slots ?? []).filter(({ state }) => state !== 'free');
  return (
    <Section
      title="Object storage"
      actions={
        status === 'paused' && (
          <MountsDialog label="Resume with other mounts" operation="resumeSandbox" sandbox={sandbox} />
        )
      }
    >
      {mounts.length === 0 ? (
        <Empty>No bucket is mounted.</Empty>
      ) : (
        <div className="table-frame">
          <table>
            <caption className="hidden">Mounted buckets</caption>
            <thead>
              <tr>
                <th scope="col">Folder</th>
                <th scope="col">Bucket</th>
                <th scope="col">Server</th>
                <th scope="col">Keys</th>
                <th scope="col">State</th>
              </tr>
            </thead>
            <tbody>
              {mounts.map((mount) => (
                <tr key={mount.slot}>
                  <td data-label="Folder">
                    <code>{visibleText(mount.mount_point)}</code>
                  </td>
                  <td data-label="Bucket">
                    <Text>{mount.uri}</Text>
                  </td>
                  <td data-label="Server">
                    <Text>{mount.endpoint ?? mount.region}</Text>
                  </td>
                  <td data-label="Keys">{mount.short_lived ? 'Short-lived' : 'Long-lived'}</td>
                  <td data-label="State">
                    <Status status={mount.state} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <p className="soft">
        {mounts.length > 0 && (
          <>
            {isDirect
              ? `The image's own s3fs mounts them${path === '' ? '' : `: ${visibleText(path)}`}. `
              : 'The host mounts them. '}
            The platform does not store their keys.{' '}
          </>
        )}
        Mounts change when the sandbox is resumed or restarted.
      </p>
    </Section>
  );
}

function Network({ sandbox: { allow_internet_access, network_proxy: proxy } }: { sandbox: Sandbox }) {
  return (
    <Section title="Network">
      <Facts
        rows={[
          ['To the internet', allow_internet_access ? 'Allowed' : 'Blocked'],
          proxy !== undefined && [
            'Proxy',
            <Text key="proxy">{`${proxy.proxy_configs.host}:${proxy.proxy_configs.port}`}</Text>,
          ],
          proxy !== undefined && [
            'Proxy with its password',
            <Copyable key="url" text={proxy.proxy_url} label="Address of the proxy" isSecret />,
          ],
        ]}
      />
    </Section>
  );
}

/** What its template has started in it. */
function Start({ sandbox: { template_custom_command: command, template_ready_command: ready } }: { sandbox: Sandbox }) {
  return (
    <Section title="Started by the template">
      <Facts
        rows={[
          ['Command', command === null ? "The image's own, or none" : <code key="c">{visibleText(command)}</code>],
          ['Ready when', ready === null ? 'Its command runs' : <code key="r">{visibleText(readyText(ready))}</code>],
        ]}
      />
    </Section>
  );
}

function readyText(ready: string): string {
  const { type, command } = readReady(ready);
  return type === 'exec' ? commandLine(command) : ready;
}
