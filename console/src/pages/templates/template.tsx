import { Link, useParams } from '@tanstack/react-router';
import { useRead } from '../../api/queries.ts';
import { Empty, Loaded } from '../../components/loaded.tsx';
import { PageBody, Section } from '../../components/page.tsx';
import { commandLine, readReady } from '../../components/ready-command-input.tsx';
import { At, Copyable, Facts, Status, Text } from '../../components/values.tsx';
import { formatCount, formatMegabytes } from '../../format/numbers.ts';
import { visibleText } from '../../format/text.ts';
import { useReadAgainWhile } from './read-again.ts';
import { TemplateActions } from './template-actions.tsx';
import { TemplateDocument } from './template-document.tsx';
import { TemplateImage } from './template-image.tsx';
import { TemplateImport } from './template-import.tsx';
import { isBuiltIn, ownerOf, type Template, useMayChange, visibilities } from './template-values.ts';

export function Page() {
  const { templateId = '' } = useParams({ strict: false });
  return <TemplatePage key={templateId} templateId={templateId} />;
}

const above = { to: '/templates', label: 'Templates' };

function TemplatePage({ templateId }: { templateId: string }) {
  const read = useRead('getTemplate', { path: { template_id: templateId } });
  // No event tells that a build or a copy goes on.
  useReadAgainWhile(read.data?.status === 'building' || read.data?.status === 'pushing', 'getTemplate');
  if (!read.data) {
    return (
      <PageBody title={templateId} above={above}>
        <Loaded read={read}>{() => null}</Loaded>
      </PageBody>
    );
  }
  return <Shown template={read.data} />;
}

function Shown({ template }: { template: Template }) {
  const mayChange = useMayChange(template);
  return (
    <PageBody
      title={visibleText(template.name)}
      heading={
        <>
          <Text>{template.name}</Text> <Status status={template.status} />
        </>
      }
      above={above}
      actions={<TemplateActions template={template} mayChange={mayChange} />}
    >
      {template.build_error_message && (
        <div className="problem" role="status">
          <p>{visibleText(template.build_error_message)}</p>
        </div>
      )}
      {template.description !== '' && <p>{visibleText(template.description)}</p>}
      <div className="columns">
        <About template={template} />
        <Defaults template={template} />
      </div>
      <div className="columns">
        <TemplateImage template={template} mayChange={mayChange && !isBuiltIn(template)} />
        {template.external_image_url !== null && mayChange && <TemplateImport template={template} />}
      </div>
      <TemplateDocument template={template} mayChange={mayChange} />
    </PageBody>
  );
}

function About({ template }: { template: Template }) {
  const { parent_template_id: parent, root_template_id: root, template_id } = template;
  return (
    <Section title="Template">
      <Facts
        rows={[
          ['Id', <Copyable key="id" text={template_id} label="Template id" />],
          ['Visible', visibilities[template.visibility]],
          ['Owner', <Text key="owner">{ownerOf(template)}</Text>],
          parent !== null && ['Based on', <TemplateLink key="parent" templateId={parent} />],
          root !== null &&
            root !== template_id &&
            root !== parent && ['The first of its line', <TemplateLink key="root" templateId={root} />],
          ['Made', <At key="made" at={template.created_at} />],
          ['Changed', <At key="changed" at={template.updated_at} />],
        ]}
      />
      {template.metadata !== null && (
        <>
          <h3>Metadata</h3>
          <pre>{visibleText(template.metadata)}</pre>
        </>
      )}
    </Section>
  );
}

/** The template may be deleted since, so its name is unknown here. */
function TemplateLink({ templateId }: { templateId: string }) {
  return (
    <Link to="/templates/$templateId" params={{ templateId }}>
      {templateId}
    </Link>
  );
}

/** What a sandbox gets that asks for nothing else. */
function Defaults({ template }: { template: Template }) {
  return (
    <Section title="What its sandboxes get">
      <Facts
        rows={[
          ['CPUs', formatCount(template.default_cpu_count)],
          ['Memory', formatMegabytes(template.default_memory_mb)],
          ['Command', commandOf(template)],
          ['Ready when', readyOf(template)],
        ]}
      />
      <Ports template={template} />
    </Section>
  );
}

function commandOf({ custom_command, start_image_command }: Template) {
  if (custom_command !== null) return <code>{visibleText(custom_command)}</code>;
  return start_image_command ? "The image's own, if it has one" : 'None';
}

function readyOf({ ready_command }: Template) {
  if (ready_command === null) return 'Its command runs';
  const { type, command, port, path, scheme } = readReady(ready_command);
  if (type === 'exec') return <code>{visibleText(commandLine(command))}</code>;
  if (type === 'tcpSocket') return `Port ${port} takes connections`;
  if (type === 'httpGet') return visibleText(`${scheme ?? 'HTTP'} on port ${port} replies at ${path ?? '/'}`);
  return <code>{visibleText(ready_command)}</code>;
}

function Ports({ template }: { template: Template }) {
  if (template.ports.length === 0) return <Empty>It declares no ports.</Empty>;
  return (
    <table>
      <caption className="hidden">Ports</caption>
      <thead>
        <tr>
          <th scope="col">Port</th>
          <th scope="col">Name</th>
          <th scope="col">Access</th>
        </tr>
      </thead>
      <tbody>
        {template.ports.map(({ port, service_port, protocol, name, is_protected }) => (
          <tr key={port}>
            <td>
              {port}
              {service_port !== port && ` → ${service_port}`} {protocol}
            </td>
            <td>
              <Text>{name}</Text>
            </td>
            <td>{is_protected ? 'Needs the access token' : 'Public'}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
