import { Link, useParams } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { Empty, Loaded } from '../../components/loaded.tsx';
import { PageBody, Parts } from '../../components/page.tsx';
import { Status, Text } from '../../components/values.tsx';
import { visibleText } from '../../format/text.ts';
import { BrowserPages } from './part-browser.tsx';
import { Environment } from './part-environment.tsx';
import { Commands } from './part-exec.tsx';
import { Failure } from './part-failure.tsx';
import { Metrics } from './part-metrics.tsx';
import { Overview } from './part-overview.tsx';
import { Ports } from './part-ports.tsx';
import { NewTemplate } from './part-template.tsx';
import { Timeline } from './part-timeline.tsx';
import { SandboxActions } from './sandbox-actions.tsx';
import type { Sandbox } from './sandbox-words.ts';
import './sandbox.css';
import { useSandbox } from './use-sandbox.ts';

/** The parts of the page, each at `/sandboxes/<id>/<part>`. */
const parts: readonly {
  part: string;
  label: string;
  Part: (props: { sandbox: Sandbox }) => ReactNode;
  isFor?: (sandbox: Sandbox) => boolean;
}[] = [
  { part: '', label: 'Overview', Part: Overview },
  { part: 'failure', label: 'Failure', Part: Failure, isFor: ({ failure }) => failure !== null },
  { part: 'timeline', label: 'Timeline', Part: Timeline },
  { part: 'metrics', label: 'Metrics', Part: Metrics },
  { part: 'exec', label: 'Run a command', Part: Commands },
  { part: 'browser', label: 'Terminal and files', Part: BrowserPages },
  { part: 'ports', label: 'Ports', Part: Ports },
  { part: 'environment', label: 'Environment', Part: Environment },
  { part: 'template', label: 'Make a template', Part: NewTemplate },
];

export function Page() {
  const { sandboxId = '', part = '' } = useParams({ strict: false });
  return <SandboxPage key={sandboxId} sandboxId={sandboxId} part={part} />;
}

const above = { to: '/sandboxes', label: 'Sandboxes' };

function SandboxPage({ sandboxId, part }: { sandboxId: string; part: string }) {
  const read = useSandbox(sandboxId);
  if (read.data && read.error?.status === 404) {
    return (
      <PageBody title={visibleText(read.data.name)} above={above}>
        <Empty action={<Link to="/sandboxes">To the sandboxes</Link>}>This sandbox is deleted.</Empty>
      </PageBody>
    );
  }
  if (!read.data) {
    return (
      <PageBody title={sandboxId} above={above}>
        <Loaded read={read}>{() => null}</Loaded>
      </PageBody>
    );
  }
  return <Shown sandbox={read.data} part={part} />;
}

function Shown({ sandbox, part }: { sandbox: Sandbox; part: string }) {
  const offered = parts.filter(({ isFor }) => isFor?.(sandbox) ?? true);
  const shown = offered.find((each) => each.part === part);
  const address = `/sandboxes/${sandbox.sandbox_id}`;
  return (
    <PageBody
      title={visibleText(sandbox.name)}
      heading={
        <>
          <Text>{sandbox.name}</Text> <Status status={sandbox.status} />
        </>
      }
      above={above}
      actions={<SandboxActions sandbox={sandbox} />}
    >
      <Parts
        label="Parts of the sandbox"
        parts={offered.map((each) => ({
          to: each.part === '' ? address : `${address}/${each.part}`,
          label: each.label,
          isShown: each === shown,
        }))}
      />
      {shown ? (
        <shown.Part sandbox={sandbox} />
      ) : (
        <Empty action={<Link to={address as '/'}>To the overview</Link>}>The sandbox has no such part.</Empty>
      )}
    </PageBody>
  );
}
