import { Link, useParams } from '@tanstack/react-router';
import { useRead } from '../../api/queries.ts';
import { Loaded } from '../../components/loaded.tsx';
import { PageBody, Section } from '../../components/page.tsx';
import { At, Copyable, Facts, Text } from '../../components/values.tsx';
import { formatCount } from '../../format/numbers.ts';
import { visibleText } from '../../format/text.ts';
import { ProjectActions } from './project-actions.tsx';
import { ProjectSandboxes } from './project-sandboxes.tsx';

export function Page() {
  const { projectId = '' } = useParams({ strict: false });
  return <ProjectPage key={projectId} projectId={projectId} />;
}

function ProjectPage({ projectId }: { projectId: string }) {
  const read = useRead('getProject', { path: { project_id: projectId } });
  const project = read.data;
  return (
    <PageBody
      title={project ? visibleText(project.name) : projectId}
      above={{ to: '/projects', label: 'Projects' }}
      actions={
        project && (
          <>
            <ProjectActions project={project} />
            <Link to="/sandboxes/new" search={{ project_id: projectId }} className="button primary">
              New sandbox
            </Link>
          </>
        )
      }
    >
      <Loaded read={read}>
        {(data) => (
          <>
            <Section title="Project">
              <Facts
                rows={[
                  ['Id', <Copyable key="id" text={data.project_id} label="Project id" />],
                  data.description !== '' && ['Description', <Text key="text">{data.description}</Text>],
                  ['Default', data.is_default ? 'Yes: sandboxes that name no project go here' : 'No'],
                  ['Sandboxes', `${formatCount(data.sandbox_count)}, with those that have ended`],
                  data.owner !== undefined && [
                    'Owner',
                    <Text key="owner">{data.owner.display_name || data.owner.email}</Text>,
                  ],
                  ['Made', <At key="made" at={data.created_at} />],
                  ['Changed', <At key="changed" at={data.updated_at} />],
                ]}
              />
            </Section>
            <ProjectSandboxes project={data} />
          </>
        )}
      </Loaded>
    </PageBody>
  );
}
