import { Link } from '@tanstack/react-router';
import { Figure } from '../../components/figure.tsx';
import { Empty } from '../../components/loaded.tsx';
import { Section } from '../../components/page.tsx';
import { At, Copyable, Facts, Text } from '../../components/values.tsx';
import { formatBytes, formatCount, formatMegabytes } from '../../format/numbers.ts';
import { visibleText } from '../../format/text.ts';
import { formatDuration } from '../../format/time.ts';
import { CostFigure, Usage } from './sandbox-cost.tsx';
import { Lifetime } from './sandbox-lifetime.tsx';
import { describeReason, describeStatus, outcomes, type Sandbox } from './sandbox-words.ts';
import { WorkflowOfSandbox } from './sandbox-workflow.tsx';

export function Overview({ sandbox }: { sandbox: Sandbox }) {
  return (
    <>
      <State sandbox={sandbox} />
      <div className="figures">
        <CostFigure sandbox={sandbox} />
        <Figure label="Has run" value={formatDuration(sandbox.total_running_seconds)} />
        <Figure label="Was paused" value={formatDuration(sandbox.total_paused_seconds)} />
      </div>
      <div className="columns">
        <div className="column">
          <About sandbox={sandbox} />
          <Lifetime sandbox={sandbox} />
        </div>
        <div className="column">
          <Access sandbox={sandbox} />
          <Usage sandbox={sandbox} />
        </div>
      </div>
      <Metadata sandbox={sandbox} />
    </>
  );
}

/** What it does now and why. The status itself stands beside its name. */
function State({ sandbox }: { sandbox: Sandbox }) {
  const { status, reason, failure, sandbox_id } = sandbox;
  const text = [describeStatus(sandbox), reason === 'user_requested' ? null : describeReason(reason)]
    .filter((each) => each !== null)
    .join(' ');
  return (
    <div className={status === 'failed' ? 'problem' : 'note'} role="status">
      <p>{text}</p>
      {failure && (
        <p>
          {visibleText(failure.message)}{' '}
          <Link to="/sandboxes/$sandboxId/$part" params={{ sandboxId: sandbox_id, part: 'failure' }}>
            More about the failure
          </Link>
        </p>
      )}
    </div>
  );
}

function About({ sandbox }: { sandbox: Sandbox }) {
  const { template_id: templateId, template_name, template_exists, project_id: projectId, project_name } = sandbox;
  const { owner, region, resources, lifecycle_outcome: outcome } = sandbox;
  return (
    <Section title="Sandbox">
      {sandbox.description !== '' && <p>{visibleText(sandbox.description)}</p>}
      <Facts
        rows={[
          ['Id', <Copyable key="id" text={sandbox.sandbox_id} label="Sandbox id" />],
          [
            'Template',
            template_exists ? (
              <Link key="template" to="/templates/$templateId" params={{ templateId }}>
                <Text>{template_name}</Text>
              </Link>
            ) : (
              <span key="template">
                <Text>{template_name}</Text> (deleted since)
              </span>
            ),
          ],
          [
            'Project',
            <Link key="project" to="/projects/$projectId" params={{ projectId }}>
              <Text>{project_name}</Text>
            </Link>,
          ],
          ['Owner', <Text key="owner">{owner.display_name || owner.email}</Text>],
          [
            'Size',
            `${formatCount(resources.cpu)} CPU · ${formatMegabytes(resources.memory)} memory · ${formatBytes(resources.storage * 1024 ** 3)} disk`,
          ],
          resources.bandwidth !== null && [
            'Network',
            `${formatCount(resources.bandwidth)} Mbit/s in each direction to the internet`,
          ],
          ['Region', <Text key="region">{region}</Text>],
          outcome !== null && ['Outcome', outcomes[outcome]],
          ['Created', <At key="created" at={sandbox.created_at} />],
        ]}
      />
      <WorkflowOfSandbox sandboxId={sandbox.sandbox_id} />
    </Section>
  );
}

/** What programs need to use it. */
function Access({ sandbox }: { sandbox: Sandbox }) {
  const { sandbox_id: sandboxId, sandbox_domain, sandbox_domain_internal: internal } = sandbox;
  return (
    <Section title="Access">
      <Facts
        rows={[
          ['Domain', <Copyable key="domain" text={sandbox_domain} label="Domain" />],
          ['Access token', <Copyable key="token" text={sandbox.envd_access_token} label="Access token" isSecret />],
          ['The token is needed', sandbox.secure ? 'Yes' : 'No: everybody who knows the domain can use the sandbox'],
          internal !== null && [
            "Inside the platform's network",
            <Copyable key="internal" text={internal} label="Internal address" />,
          ],
          ['Last used', <At key="used" at={sandbox.last_accessed_at} />],
        ]}
      />
      <p className="soft">
        The token opens everything in the sandbox, as long as it exists.{' '}
        <Link to="/sandboxes/$sandboxId/$part" params={{ sandboxId, part: 'browser' }}>
          Terminal and files
        </Link>
        {' · '}
        <Link to="/sandboxes/$sandboxId/$part" params={{ sandboxId, part: 'ports' }}>
          Ports
        </Link>
      </p>
    </Section>
  );
}

function Metadata({ sandbox: { metadata } }: { sandbox: Sandbox }) {
  const pairs = Object.entries(metadata);
  return (
    <Section title="Metadata">
      {pairs.length === 0 ? (
        <Empty>It has no metadata.</Empty>
      ) : (
        <>
          <Facts rows={pairs.map(([name, value]) => [visibleText(name), <Text key={name}>{value}</Text>] as const)} />
          <p className="soft">
            Each pair can be a filter of the list of sandboxes, and groups their usage. It is set when a sandbox is
            made.
          </p>
        </>
      )}
    </Section>
  );
}
