import { Link, useNavigate } from '@tanstack/react-router';
import { BodyForm } from '../../components/body-form.tsx';
import { Empty } from '../../components/loaded.tsx';
import { useNotice } from '../../components/notices.tsx';
import { Section } from '../../components/page.tsx';
import { formatCount, formatMegabytes } from '../../format/numbers.ts';
import { help, inputs, labels } from '../templates/template-fields.tsx';
import { isOver, type Sandbox } from './sandbox-words.ts';

/** The disk of the sandbox as the image of a new template. */
export function NewTemplate({ sandbox }: { sandbox: Sandbox }) {
  const navigate = useNavigate();
  const notify = useNotice();
  if (sandbox.status !== 'running') {
    return (
      <Empty>
        {isOver(sandbox.status)
          ? 'The disk of the sandbox is removed, so no template can be made of it.'
          : 'A template is made of a running sandbox.'}
      </Empty>
    );
  }
  return (
    <Section title="Make a template of its disk">
      <p>
        The new template has the files of this sandbox, but not its processes and what they have in memory. The sandbox
        stands still for a moment and then goes on. The <Link to="/templates">template's</Link> page shows how its image
        is built.
      </p>
      <BodyForm
        operation="createTemplateFromSandbox"
        path={{ sandbox_id: sandbox.sandbox_id }}
        sections={[
          { fields: ['name', 'description'] },
          {
            title: 'What its sandboxes get',
            fields: ['cpu_count', 'memory_mb', 'ports', 'custom_command', 'ready_command'],
          },
          { title: 'Who sees it', fields: ['visibility'] },
        ]}
        labels={{ ...labels, cpu_count: 'CPUs', memory_mb: 'Memory (MB)' }}
        help={{
          name: help.name,
          cpu_count: `${formatCount(sandbox.cpu_count)}, as this sandbox, if empty.`,
          memory_mb: `${formatMegabytes(sandbox.memory_mb)}, as this sandbox, if empty.`,
          ports: "Added to those of the sandbox's template. Public on the internet, unless they need the access token.",
          custom_command: <>{help.custom_command} If empty, that of the sandbox's template.</>,
          ready_command: "If empty, that of the sandbox's template.",
          visibility: help.visibility,
        }}
        inputs={inputs}
        initial={{
          custom_command: sandbox.template_custom_command ?? '',
          ready_command: sandbox.template_ready_command ?? '',
        }}
        changes={['listTemplates', 'getTemplateStorageUsage']}
        submitLabel="Make the template"
        onDone={({ template_id: templateId, message }) => {
          notify(message);
          void navigate({ to: '/templates/$templateId', params: { templateId } });
        }}
      />
    </Section>
  );
}
