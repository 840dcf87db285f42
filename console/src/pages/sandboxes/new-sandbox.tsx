import { useNavigate } from '@tanstack/react-router';
import { useRead } from '../../api/queries.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { useNotice } from '../../components/notices.tsx';
import { PageBody } from '../../components/page.tsx';
import { usePageSearch } from '../../components/page-search.ts';
import { formatBytes, formatCount } from '../../format/numbers.ts';
import { visibleText } from '../../format/text.ts';
import { formatDuration } from '../../format/time.ts';
import { ProjectInput, RegionInput, TemplateInput } from './new-sandbox-inputs.tsx';
import { portHelp, portLabels } from './port-fields.ts';
import { SecondsInput } from './seconds-input.tsx';

const inputs = {
  template: TemplateInput,
  project_id: ProjectInput,
  timeout: SecondsInput,
  'locality.region': RegionInput,
};

const labels = {
  project_id: 'Project',
  cpu_count: 'CPUs',
  memory_mb: 'Memory (MB)',
  storage_gb: 'Disk (GB)',
  timeout: 'Timeout in seconds',
  auto_pause: 'Pause at the timeout',
  env_vars: 'Environment variables',
  secure: 'Needs the access token',
  allow_internet_access: 'Internet access',
  custom_ports: 'Ports',
  ...Object.fromEntries(Object.entries(portLabels).map(([name, label]) => [`custom_ports.${name}`, label])),
  object_storage: 'Buckets',
  'object_storage.uri': 'Bucket',
  'object_storage.mount_point': 'Folder in the sandbox',
  object_storage_direct_mount: "Mount with the image's own s3fs",
  s3fs_executable_path: "Path of the image's s3fs",
  locality: 'Region',
  'locality.auto_detect': 'The nearest to you',
  'locality.force': 'Only there',
};

/** Explanations that need more than the reference says. */
const help = {
  name: 'Generated if empty.',
  template: 'What it is made of. Write a part of a name to find one; base if empty.',
  project_id: 'Where it is listed, and where its usage counts. You can move it while it runs.',
  auto_pause: 'At its timeout it pauses and keeps its disk, instead of ending. A resume continues it.',
  metadata: 'Pairs by which you find sandboxes and group their usage, such as team and blue. They cannot be changed.',
  env_vars: 'For all processes in the sandbox. They cannot be changed.',
  custom_ports: 'Servers in the sandbox that the internet reaches. You can also add them later.',
  ...Object.fromEntries(Object.entries(portHelp).map(([name, text]) => [`custom_ports.${name}`, text])),
  secure: 'Without, everybody who knows its domain can run commands in it.',
  allow_internet_access: 'Without, programs in it reach nothing outside. Its ports can be reached all the same.',
  object_storage: 'Each becomes a folder in the sandbox. The platform does not store the keys.',
  'object_storage.session_token': 'Only for short-lived keys. A resume needs new ones then.',
  object_storage_direct_mount:
    "s3fs runs in the sandbox, with the sandbox's network. Only for custom templates, and not with a session token.",
  s3fs_executable_path: 'Only with the image’s own s3fs. Empty: the one in PATH.',
  locality: 'Where it runs. Empty: where there is room.',
  'locality.auto_detect': 'If no region is chosen.',
  'locality.force': 'Refused if the region has no room. Otherwise another region is used then.',
};

const sections = [
  {
    fields: [
      'name',
      'template',
      'project_id',
      'cpu_count',
      'memory_mb',
      'storage_gb',
      'timeout',
      'auto_pause',
    ] as const,
  },
  { title: 'Environment', fields: ['env_vars'] as const },
  { title: 'Description and metadata', fields: ['description', 'metadata'] as const },
  { title: 'Ports', fields: ['custom_ports'] as const },
  { title: 'Network and security', fields: ['allow_internet_access', 'secure'] as const },
  {
    title: 'Object storage',
    fields: ['object_storage', 'object_storage_direct_mount', 's3fs_executable_path'] as const,
  },
];
const regionSection = { title: 'Region', fields: ['locality'] as const };

/** The form for a new sandbox. The address may have a `template` and a `project`. */
export function Page() {
  const [{ template = '', project = '' }] = usePageSearch();
  const navigate = useNavigate();
  const notify = useNotice();
  const sizes = useSizeHelp();
  const regions = useRead('listPlatformRegions').data?.platform_regions ?? [];
  return (
    <PageBody title="New sandbox" above={{ to: '/sandboxes', label: 'Sandboxes' }}>
      <div className="section">
        <BodyForm
          operation="createSandbox"
          sections={regions.length > 1 ? [...sections, regionSection] : sections}
          labels={labels}
          help={{ ...help, ...sizes }}
          inputs={inputs}
          initial={{ template, project_id: project }}
          // Its page shows at once how it starts.
          fixed={{ is_async: true }}
          changes={['listSandboxes', 'getSandboxStats', 'listProjects', 'listProjectSandboxes']}
          submitLabel="Create"
          onDone={({ sandbox_id: sandboxId, name }) => {
            notify(`${visibleText(name)} is created`);
            void navigate({ to: '/sandboxes/$sandboxId', params: { sandboxId } });
          }}
        />
      </div>
    </PageBody>
  );
}

/** What stands for an empty size, and how much the plan allows. */
function useSizeHelp() {
  const plan = useRead('getSubscription').data?.subscription.plan;
  const atMost = (text: string) => (plan ? ` Your plan allows ${text}.` : '');
  const gigabytes = (count = 0) => formatBytes(count * 1024 ** 3);
  return {
    cpu_count: `Those of the template if empty.${atMost(formatCount(plan?.max_cpu_cores_per_sandbox ?? 0))}`,
    memory_mb: `That of the template if empty.${atMost(gigabytes(plan?.max_memory_gb_per_sandbox))}`,
    storage_gb: `Half of what your plan allows if empty.${atMost(gigabytes(plan?.max_storage_gb_per_sandbox))}`,
    timeout: `How long it runs, from its start on; you can extend it. 5 minutes if empty.${atMost(
      formatDuration(plan?.max_sandbox_timeout_seconds ?? 0),
    )}`,
  };
}
