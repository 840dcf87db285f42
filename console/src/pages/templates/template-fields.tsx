import { Link } from '@tanstack/react-router';
import { useIsAdmin } from '../../api/session.ts';
import type { OwnInput } from '../../components/body-inputs.tsx';
import { PortsInput } from '../../components/ports-input.tsx';
import { ReadyCommandInput } from '../../components/ready-command-input.tsx';
import { visibilities } from './template-values.ts';

/** What the forms of templates have in common. */
export const labels = {
  external_image_url: 'Image',
  external_registry_username: 'User name at its registry',
  external_registry_password: 'Password at its registry',
  registry_image_url: "Image in the platform's registry",
  registry_project: 'Project in the registry',
  registry_repository: 'Repository in the registry',
  registry_tag: 'Tag',
  default_cpu_count: 'CPUs',
  default_memory_mb: 'Memory (MB)',
  custom_command: 'Command',
  start_image_command: "Start the image's own command",
  ready_command: 'A sandbox is ready when',
  metadata: 'Metadata (JSON)',
  visibility: 'Visible',
  reset_ports: 'Leave out the ports of the other template',
};

export const help = {
  name: '4 to 32 of a–z, 0–9, - and _. It begins with a letter. Programs name the template by it.',
  external_image_url: (
    <>
      As docker pull takes it: <code>docker.io/library/python:3.13</code> or <code>ghcr.io/org/app@sha256:…</code>.
      Without a registry, it is Docker Hub.
    </>
  ),
  external_registry_username: 'Only for images that are not public.',
  external_registry_password: 'Kept encrypted until the image is imported, and never shown.',
  default_cpu_count: 'A new sandbox gets these if it does not ask for others. 2 if empty.',
  default_memory_mb: '512 if empty.',
  custom_command: (
    <>
      Started once, with the sandbox: a command line of a shell, or <code>{'{"Entrypoint": [], "Cmd": []}'}</code>. If
      it fails before the sandbox is ready, the sandbox has failed.
    </>
  ),
  start_image_command: 'Its ENTRYPOINT and CMD, if there is no command above.',
  ready_command: 'The reply to a create waits for it.',
  ports: 'Public on the internet, unless they need the access token.',
  visibility: 'Private: you and the root users of your account.',
};

const VisibilityInput: OwnInput = ({ id, value, onChange, 'aria-describedby': describedBy }) => {
  const isAdmin = useIsAdmin();
  const offered = Object.entries(visibilities).filter(([each]) => isAdmin || each !== 'public');
  return (
    <select
      id={id}
      aria-describedby={describedBy}
      value={value || 'private'}
      onChange={(event) => onChange(event.target.value)}
    >
      {offered.map(([each, label]) => (
        <option key={each} value={each}>
          {label}
        </option>
      ))}
    </select>
  );
};

export const inputs = { ports: PortsInput, ready_command: ReadyCommandInput, visibility: VisibilityInput };

/** What a template gives its sandboxes beside the image. */
export const defaultFields = [
  'default_cpu_count',
  'default_memory_mb',
  'ports',
  'custom_command',
  'start_image_command',
  'ready_command',
] as const;

/** Beside the field for the image of a registry. */
export const registryLogin = ['external_registry_username', 'external_registry_password'] as const;

export function NewSandboxLink(props: { templateId: string }) {
  return (
    <Link to="/sandboxes/new" search={{ template: props.templateId }} className="button primary">
      New sandbox from this
    </Link>
  );
}
