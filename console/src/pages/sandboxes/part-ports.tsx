import { useState } from 'react';
import type { DataOf } from '../../api/client.ts';
import { useChange, useRead } from '../../api/queries.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { Empty, Loaded } from '../../components/loaded.tsx';
import { useNotice } from '../../components/notices.tsx';
import { Section } from '../../components/page.tsx';
import { Copyable, Text } from '../../components/values.tsx';
import { portHelp, portLabels } from './port-fields.ts';
import { canSign, portUrl, signedPortUrl } from './sandbox-links.ts';
import type { Sandbox } from './sandbox-words.ts';
import { TurnCredential } from './turn-credential.tsx';

type Port = DataOf<'listSandboxPorts'>['ports'][number];

const changes = ['listSandboxPorts', 'getSandbox'] as const;

/** The declared ports of the sandbox, and how to reach them. */
export function Ports({ sandbox }: { sandbox: Sandbox }) {
  const read = useRead('listSandboxPorts', { path: { sandbox_id: sandbox.sandbox_id } });
  return (
    <>
      <Section title="Ports" actions={sandbox.status === 'running' && <Add sandbox={sandbox} />}>
        <Loaded read={read}>
          {({ ports, custom_ports }) =>
            ports.length === 0 ? (
              <Empty>It declares no ports.</Empty>
            ) : (
              <Table sandbox={sandbox} ports={ports} own={new Set(custom_ports.map(({ port }) => port))} />
            )
          }
        </Loaded>
        <p className="soft">
          {sandbox.secure
            ? 'With the access token, a program reaches every other port, too.'
            : 'This sandbox is not secure, so other ports are public, too.'}{' '}
          Addresses have the form{' '}
          <code>
            {'<port>-'}
            {sandbox.sandbox_domain}
          </code>
          .
        </p>
      </Section>
      <TurnCredential sandbox={sandbox} />
    </>
  );
}

function Table({ sandbox, ports, own }: { sandbox: Sandbox; ports: readonly Port[]; own: ReadonlySet<number> }) {
  return (
    <div className="table-frame">
      <table>
        <caption className="hidden">Ports of the sandbox</caption>
        <thead>
          <tr>
            <th scope="col">Port</th>
            <th scope="col">Name</th>
            <th scope="col">Access</th>
            <th scope="col">Address</th>
            <th scope="col">Declared by</th>
            <th scope="col">Actions</th>
          </tr>
        </thead>
        <tbody>
          {ports.map((port) => (
            <tr key={port.port}>
              <td data-label="Port">
                {port.port}
                {port.service_port !== port.port && ` → ${port.service_port}`} {port.protocol}
              </td>
              <td data-label="Name">
                <Text>{port.name}</Text>
              </td>
              <td data-label="Access">{port.is_protected ? 'Needs the access token' : 'Public'}</td>
              <td data-label="Address">
                <Address sandbox={sandbox} port={port} />
              </td>
              <td data-label="Declared by">{own.has(port.port) ? 'This sandbox' : 'Its template'}</td>
              <td data-label="Actions">
                {own.has(port.port) && sandbox.status === 'running' && <Remove sandbox={sandbox} port={port} />}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Address({ sandbox, port: { port, protocol, is_protected, host_port } }: { sandbox: Sandbox; port: Port }) {
  if (protocol === 'UDP') {
    return host_port ? (
      <Copyable text={host_port} label="UDP address" />
    ) : (
      <span className="soft">Not reachable now</span>
    );
  }
  if (is_protected) return <Protected sandbox={sandbox} port={port} />;
  return (
    <div>
      {(['https:', 'http:'] as const).map((scheme) => (
        <span key={scheme}>
          <a href={portUrl(sandbox, port, scheme)} target="_blank" rel="noreferrer">
            {scheme.slice(0, -1)}
            <span className="hidden"> of port {port} (in a new tab)</span>
          </a>{' '}
        </span>
      ))}
    </div>
  );
}

const linkSeconds = 3600;

function Protected({ sandbox, port }: { sandbox: Sandbox; port: number }) {
  const [link, setLink] = useState<string | null>(null);
  return (
    <div>
      <p>
        Send the token in <code>X-Access-Token</code> to <code>{`${port}-${sandbox.sandbox_domain}`}</code>
      </p>
      {link === null && canSign() && (
        <button
          type="button"
          className="link"
          onClick={async () => setLink(await signedPortUrl(sandbox, port, linkSeconds))}
        >
          Make a link that reads it for an hour
        </button>
      )}
      {link !== null && <Copyable text={link} label="Link" isSecret />}
    </div>
  );
}

function Add({ sandbox }: { sandbox: Sandbox }) {
  const notify = useNotice();
  return (
    <DialogButton label="Add a port">
      {(close) => (
        <BodyForm
          operation="addSandboxPort"
          path={{ sandbox_id: sandbox.sandbox_id }}
          sections={[{ fields: ['port', 'name', 'protocol', 'service_port', 'is_protected'] }]}
          labels={portLabels}
          help={portHelp}
          changes={changes}
          submitLabel="Add"
          onDone={({ port: { port } }) => {
            close();
            notify(`Port ${port} can be reached`);
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}

function Remove({ sandbox, port: { port, name } }: { sandbox: Sandbox; port: Port }) {
  const remove = useChange('removeSandboxPort', changes);
  const notify = useNotice();
  return (
    <ConfirmedButton
      label="Remove"
      object={`port ${port}`}
      what={
        <>
          The port <Text>{name}</Text> accepts no new requests. Running requests go on.
        </>
      }
      run={() => remove.mutateAsync({ path: { sandbox_id: sandbox.sandbox_id, port } })}
      onDone={() => notify(`Port ${port} is removed`)}
    />
  );
}
