import { Link, useNavigate } from '@tanstack/react-router';
import type { DataOf } from '../../api/client.ts';
import { useIsAdmin, useIsRoot } from '../../api/session.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { useNotice } from '../../components/notices.tsx';
import { PageBody, Section } from '../../components/page.tsx';
import { usePageSearch } from '../../components/page-search.ts';
import { defaultFields, help, inputs, labels, registryLogin } from './template-fields.tsx';
import { TemplateOfTemplate } from './template-of-template.tsx';

/** The ways to make a template. The address has the chosen one as `from`. */
const ways = [
  {
    from: 'import',
    title: 'Import an image',
    about: "Copies an image of any registry into the platform's registry, and makes a template of it.",
    Form: ImportForm,
  },
  {
    from: 'external',
    title: 'Image to import later',
    about: "Checks that a registry has the image. You start the import on the template's page, when you need it.",
    Form: ExternalForm,
  },
  {
    from: 'registry',
    title: "Image in the platform's registry",
    about:
      "For an image that you have pushed there, or that a build will push. Then validate it on the template's page.",
    Form: RegistryForm,
  },
  {
    from: 'template',
    title: 'Based on another template',
    about: 'Takes the image of another template, and all that you leave empty here.',
    Form: BaseForm,
  },
] as const;

export function Page() {
  const [{ from }] = usePageSearch();
  const way = ways.find((each) => each.from === from) ?? ways[0];
  return (
    <PageBody title="New template" above={{ to: '/templates', label: 'Templates' }}>
      <nav className="parts" aria-label="What it is made of">
        {ways.map(({ from: each, title }) => (
          <Link
            key={each}
            to="/templates/new"
            search={{ from: each }}
            aria-current={each === way.from ? 'page' : false}
          >
            {title}
          </Link>
        ))}
      </nav>
      <Section title={way.title}>
        <p>{way.about}</p>
        <way.Form />
      </Section>
      <p className="soft">
        To make a template of a sandbox's disk, open the <Link to="/sandboxes">sandbox</Link>.
      </p>
    </PageBody>
  );
}

/** Operations whose replies a new template makes old. */
const changes = ['listTemplates', 'listImportJobs', 'getTemplateStorageUsage'] as const;

/** Goes to the page of the new template, which also shows its import. */
function useMade(): (made: Pick<DataOf<'importTemplate'>, 'template_id'> & { message?: string }) => void {
  const navigate = useNavigate();
  const notify = useNotice();
  return ({ template_id, message }) => {
    notify(message ?? 'The template is made');
    void navigate({ to: '/templates/$templateId', params: { templateId: template_id } });
  };
}

const common = { labels, help, inputs, changes, submitLabel: 'Make the template' };
const imageCommand = { start_image_command: true };

function ImportForm() {
  const onDone = useMade();
  const isRoot = useIsRoot();
  const isAdmin = useIsAdmin();
  return (
    <BodyForm
      {...common}
      operation="importTemplate"
      sections={[
        { fields: ['name', 'external_image_url', 'description'] },
        { title: 'Registry with a password', fields: registryLogin },
        { title: 'What its sandboxes get', fields: defaultFields },
        ...(isRoot || isAdmin ? [{ title: 'Who sees it', fields: ['visibility'] as const }] : []),
      ]}
      initial={imageCommand}
      submitLabel="Import"
      onDone={onDone}
    />
  );
}

function ExternalForm() {
  const onDone = useMade();
  return (
    <BodyForm
      {...common}
      operation="createTemplate"
      sections={[
        { fields: ['name', 'external_image_url', 'description'] },
        { title: 'Registry with a password', fields: registryLogin },
        { title: 'What its sandboxes get', fields: defaultFields },
        { title: 'Who sees it, and metadata', fields: ['visibility', 'metadata'] },
      ]}
      initial={imageCommand}
      fixed={{ template_source: 'custom', custom_image_source: 'external' }}
      onDone={onDone}
    />
  );
}

function RegistryForm() {
  const onDone = useMade();
  return (
    <BodyForm
      {...common}
      operation="createTemplate"
      sections={[
        { fields: ['name', 'registry_image_url', 'description'] },
        {
          title: 'Image that a build will push',
          fields: ['registry_project', 'registry_repository', 'registry_tag'],
        },
        { title: 'What its sandboxes get', fields: defaultFields },
        { title: 'Who sees it, and metadata', fields: ['visibility', 'metadata'] },
      ]}
      help={{
        ...help,
        registry_image_url:
          'Empty: a build pushes it later. It is in your project, in that of your account, or public.',
        registry_project: 'Your own project if empty.',
        registry_repository: 'The name of the template if empty.',
      }}
      initial={imageCommand}
      fixed={{ template_source: 'custom', custom_image_source: 'imported' }}
      onDone={onDone}
    />
  );
}

function BaseForm() {
  return <TemplateOfTemplate onDone={useMade()} />;
}
