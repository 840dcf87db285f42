import { Link, useNavigate } from '@tanstack/react-router';
import { useChange } from '../../api/queries.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { useNotice } from '../../components/notices.tsx';
import { defaultFields, help, inputs, labels, NewSandboxLink, registryLogin } from './template-fields.tsx';
import { isBuiltIn, isUsable, type Template } from './template-values.ts';

/** What can be done with a template as a whole. */
export function TemplateActions({ template, mayChange }: { template: Template; mayChange: boolean }) {
  const { template_id, visibility } = template;
  return (
    <>
      {mayChange && <Edit template={template} />}
      {mayChange && visibility === 'private' && <Share template={template} />}
      {mayChange && visibility === 'account_shared' && <Unshare template={template} />}
      {mayChange && !isBuiltIn(template) && <Delete template={template} />}
      <Link to="/templates/new" search={{ from: 'template', base: template_id }} className="button">
        New template from this
      </Link>
      {isUsable(template) && <NewSandboxLink templateId={template_id} />}
    </>
  );
}

const changes = ['getTemplate', 'listTemplates'] as const;

function Edit({ template }: { template: Template }) {
  const notify = useNotice();
  const isExternal = template.custom_image_source === 'external';
  return (
    <DialogButton label="Edit" title={`Edit ${template.name}`} isWide>
      {(close) => (
        <BodyForm
          operation="updateTemplate"
          path={{ template_id: template.template_id }}
          sections={[
            { fields: ['name', 'description'] },
            ...(isExternal
              ? [{ title: 'Image to import', fields: ['external_image_url', ...registryLogin] as const }]
              : []),
            { title: 'What its sandboxes get', fields: defaultFields },
            { title: 'Metadata', fields: ['metadata'] },
          ]}
          labels={labels}
          help={{
            ...help,
            default_cpu_count: 'Sandboxes that exist do not change.',
            default_memory_mb: '',
            ports:
              'Public, unless they need the access token. Ports that need it stay, also when you remove them here.',
            metadata: 'Can be replaced, but not removed.',
          }}
          inputs={inputs}
          initial={{
            name: template.name,
            description: template.description,
            external_image_url: template.external_image_url,
            external_registry_username: template.external_registry_username,
            default_cpu_count: template.default_cpu_count,
            default_memory_mb: template.default_memory_mb,
            ports: JSON.stringify(template.ports),
            custom_command: template.custom_command,
            start_image_command: template.start_image_command,
            ready_command: template.ready_command,
            metadata: template.metadata,
          }}
          sendsChangesOnly
          changes={changes}
          submitLabel="Save"
          onDone={() => {
            close();
            notify(`${template.name} is changed`);
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}

function Share({ template }: { template: Template }) {
  const notify = useNotice();
  return (
    <DialogButton label="Share" title={`Share ${template.name}`}>
      {(close) => (
        <>
          <p>
            All users of the account see it then, and can make sandboxes from it. Its image moves to the account's
            project in the registry.
          </p>
          <BodyForm
            operation="shareTemplate"
            path={{ template_id: template.template_id }}
            sections={[{ fields: ['new_name'] }]}
            help={{ new_name: `Empty: it keeps the name ${template.name}.` }}
            changes={changes}
            submitLabel="Share"
            onDone={({ message }) => {
              close();
              notify(message);
            }}
            onCancel={close}
          />
        </>
      )}
    </DialogButton>
  );
}

function Unshare({ template }: { template: Template }) {
  const unshare = useChange('unshareTemplate', changes);
  const notify = useNotice();
  return (
    <ConfirmedButton
      label="Unshare"
      object={template.name}
      what="Other users of the account no longer see it. Their sandboxes stay."
      run={() => unshare.mutateAsync({ path: { template_id: template.template_id } })}
      onDone={() => notify(`${template.name} is private`)}
    />
  );
}

function Delete({ template }: { template: Template }) {
  const remove = useChange('deleteTemplate', ['listTemplates', 'getTemplateStorageUsage']);
  const navigate = useNavigate();
  const notify = useNotice();
  return (
    <ConfirmedButton
      label="Delete"
      object={template.name}
      what="The template and its image are removed. It is refused while a sandbox made from it still has a disk."
      run={() => remove.mutateAsync({ path: { template_id: template.template_id } })}
      onDone={() => {
        notify(`${template.name} is deleted`);
        void navigate({ to: '/templates' });
      }}
    />
  );
}
