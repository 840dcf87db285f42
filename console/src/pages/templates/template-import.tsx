import { Link } from '@tanstack/react-router';
import { useRead } from '../../api/queries.ts';
import { useSession } from '../../api/session.ts';
import { Empty, Loaded } from '../../components/loaded.tsx';
import { Section } from '../../components/page.tsx';
import { ImportJob, ImportProgress, StartImport } from './import-job.tsx';
import type { Template } from './template-values.ts';

/** The import of a template's image: the one that runs, or else the newest one. */
export function TemplateImport({ template }: { template: Template }) {
  const { template_id, owner_user_id } = template;
  const isOwn = owner_user_id === useSession().user_id;
  return (
    <Section
      title="Import"
      actions={
        <Link to="/templates/imports" search={{ template_id }}>
          All imports
        </Link>
      }
    >
      {isOwn ? <OwnImport template={template} /> : <ImportOfOther template={template} />}
    </Section>
  );
}

function OwnImport({ template }: { template: Template }) {
  const read = useRead('getTemplateImport', { path: { template_id: template.template_id } });
  if (read.error?.status === 404) return <NoImport template={template} text="The image has not been imported yet." />;
  return <Loaded read={read}>{(job) => <ImportProgress job={job} />}</Loaded>;
}

/** Root users and operators find the running import of somebody else in the list. */
function ImportOfOther({ template }: { template: Template }) {
  const read = useRead('listImportJobs', { query: { template_id: template.template_id, limit: 1 } });
  return (
    <Loaded read={read}>
      {({ jobs: [job] }) =>
        job ? <ImportJob jobId={job.job_id} /> : <NoImport template={template} text="No import is running." />
      }
    </Loaded>
  );
}

function NoImport({ template, text }: { template: Template; text: string }) {
  const isImported = template.custom_image_source !== 'external';
  return (
    <Empty action={!isImported && <StartImport templateId={template.template_id} label="Import the image" />}>
      {isImported ? 'The image is imported.' : text}
    </Empty>
  );
}
