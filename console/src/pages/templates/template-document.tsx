import { lazy, Suspense } from 'react';
import { operationUrl } from '../../api/client.ts';
import { useChange } from '../../api/queries.ts';
import { BodyForm } from '../../components/body-form.tsx';
import type { OwnInput } from '../../components/body-inputs.tsx';
import { ConfirmedButton } from '../../components/confirm.tsx';
import { DialogButton } from '../../components/dialog-button.tsx';
import { Empty, Loading } from '../../components/loaded.tsx';
import { useNotice } from '../../components/notices.tsx';
import { Section } from '../../components/page.tsx';
import type { Template } from './template-values.ts';

const Markdown = lazy(() => import('../../components/markdown.tsx').then((file) => ({ default: file.Markdown })));

/** What the owner has written about the template, for all who see it. */
export function TemplateDocument({ template, mayChange }: { template: Template; mayChange: boolean }) {
  const { template_document: text, template_id } = template;
  const path = { template_id };
  return (
    <Section
      title="Document"
      actions={
        <div className="row-actions">
          {text && (
            <a className="button" href={operationUrl('getTemplateDocument', { path, query: { download: 'true' } })}>
              Download
            </a>
          )}
          {mayChange && <EditDocument template={template} />}
          {mayChange && text && <RemoveDocument template={template} />}
        </div>
      }
    >
      {text ? <Rendered text={text} /> : <Empty>Nothing is written about this template.</Empty>}
    </Section>
  );
}

function Rendered(props: { text: string }) {
  return (
    <Suspense fallback={<Loading />}>
      <Markdown text={props.text} />
    </Suspense>
  );
}

function EditDocument({ template }: { template: Template }) {
  const notify = useNotice();
  return (
    <DialogButton label={template.template_document ? 'Edit' : 'Write'} title={`Document of ${template.name}`} isWide>
      {(close) => (
        <BodyForm
          operation="setTemplateDocument"
          path={{ template_id: template.template_id }}
          sections={[{ fields: ['template_document'] }]}
          labels={{ template_document: 'Text' }}
          help={{ template_document: 'Markdown. Everybody who sees the template can read it.' }}
          inputs={{ template_document: DocumentInput }}
          initial={{ template_document: template.template_document ?? '' }}
          changes={['getTemplate', 'listTemplates']}
          submitLabel="Save"
          onDone={() => {
            close();
            notify('The document is saved');
          }}
          onCancel={close}
        />
      )}
    </DialogButton>
  );
}

/** The text, and how readers will see it. */
const DocumentInput: OwnInput = ({ value, onChange, ...ids }) => (
  <>
    <textarea {...ids} required rows={16} value={value} onChange={(event) => onChange(event.target.value)} />
    <details>
      <summary>Preview</summary>
      <Rendered text={value} />
    </details>
  </>
);

function RemoveDocument({ template }: { template: Template }) {
  const remove = useChange('deleteTemplateDocument', ['getTemplate', 'listTemplates']);
  const notify = useNotice();
  return (
    <ConfirmedButton
      label="Remove document"
      object={template.name}
      what="The text is removed. The template stays."
      run={() => remove.mutateAsync({ path: { template_id: template.template_id } })}
      onDone={() => notify('The document is removed')}
    />
  );
}
