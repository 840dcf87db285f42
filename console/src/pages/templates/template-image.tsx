import { useIsAdmin } from '../../api/session.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { useNotice } from '../../components/notices.tsx';
import { Section } from '../../components/page.tsx';
import { At, Facts, Text } from '../../components/values.tsx';
import { formatBytes } from '../../format/numbers.ts';
import { labels } from './template-fields.tsx';
import { sourceOf, type Template } from './template-values.ts';

/** Where the image is from and when it was made; who builds images elsewhere says here that one is there. */
export function TemplateImage({ template, mayChange }: { template: Template; mayChange: boolean }) {
  const isAdmin = useIsAdmin();
  const { image_size_bytes: bytes } = template;
  return (
    <Section
      title="Image"
      actions={
        mayChange && (
          <div className="row-actions">
            <Validate template={template} />
            {isAdmin && <ReportStatus template={template} />}
          </div>
        )
      }
    >
      <Facts
        rows={[
          ['Source', sourceOf(template)],
          template.external_image_url !== null && ['From', <Text key="from">{template.external_image_url}</Text>],
          template.external_registry_username !== null && [
            'User name at its registry',
            <Text key="user">{template.external_registry_username}</Text>,
          ],
          template.registry_image_url !== null && [
            'In the registry',
            <Text key="at">{template.registry_image_url}</Text>,
          ],
          template.registry_image_url === null &&
            template.registry_project !== null && ['Place for an image', <Text key="place">{placeOf(template)}</Text>],
          ['Size', bytes === null ? null : formatBytes(bytes)],
          template.build_started_at !== null && ['Build started', <At key="build" at={template.build_started_at} />],
          template.push_started_at !== null && ['Copy started', <At key="push" at={template.push_started_at} />],
          template.push_completed_at !== null && ['Available since', <At key="done" at={template.push_completed_at} />],
          template.last_storage_sync_at !== null && [
            'Read in the registry',
            <At key="sync" at={template.last_storage_sync_at} />,
          ],
        ]}
      />
    </Section>
  );
}

const placeOf = ({ registry_project, registry_repository, registry_tag }: Template) =>
  `${registry_project}/${registry_repository}:${registry_tag}`;

const changes = ['getTemplate', 'listTemplates', 'getTemplateStorageUsage'] as const;

function Validate({ template }: { template: Template }) {
  const notify = useNotice();
  return (
    <DialogButton label="Validate" title={`Image of ${template.name}`}>
      {(close) => (
        <>
          <p>Reads an image that is in the platform's registry, and makes the template available with it.</p>
          <BodyForm
            operation="validateTemplate"
            path={{ template_id: template.template_id }}
            sections={[{ fields: ['registry_image_url'] }]}
            labels={labels}
            help={{ registry_image_url: 'In your project, in that of your account, or in a public one.' }}
            initial={{ registry_image_url: template.registry_image_url ?? '' }}
            changes={changes}
            submitLabel="Validate"
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

function ReportStatus({ template }: { template: Template }) {
  const notify = useNotice();
  return (
    <DialogButton label="Set status" title={`Status of ${template.name}`}>
      {(close) => (
        <>
          <p>For builds outside of the platform. A build system reports it by itself; this is for one that has not.</p>
          <BodyForm
            operation="setTemplateStatus"
            path={{ template_id: template.template_id }}
            sections={[{ fields: ['status', 'registry_image_url', 'error_message'] }]}
            labels={{ ...labels, error_message: 'Why it failed' }}
            help={{
              status: 'Available needs an image.',
              registry_image_url: 'Empty: the image that the template has.',
              error_message: 'Shown to all who see the template. Only with failed.',
            }}
            initial={{ status: template.status }}
            changes={changes}
            submitLabel="Set status"
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
