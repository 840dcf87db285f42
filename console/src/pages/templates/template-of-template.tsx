import { useId } from 'react';
import type { DataOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { BodyForm } from '../../components/body-form.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { usePageSearch } from '../../components/page-search.ts';
import { visibleText } from '../../format/text.ts';
import { defaultFields, help, inputs, labels } from './template-fields.tsx';
import { ownerOf } from './template-values.ts';

/** The form for a template that is based on another one. The address has the other one as `base`. */
export function TemplateOfTemplate(props: { onDone: (made: DataOf<'createTemplate'>) => void }) {
  const id = useId();
  const [{ base = '' }, change] = usePageSearch();
  const templates = useRead('listTemplates', { query: { limit: 100 } });
  return (
    <>
      <div className="field">
        <label htmlFor={id}>Other template</label>
        <Loaded read={templates}>
          {({ templates: offered }) => (
            <select id={id} value={base} onChange={(event) => change({ base: event.target.value })}>
              <option value="">Choose a template</option>
              {base !== '' && !offered.some(({ template_id }) => template_id === base) && (
                <option value={base}>{visibleText(base)}</option>
              )}
              {offered.map((each) => (
                <option key={each.template_id} value={each.template_id}>
                  {visibleText(`${each.name} (${ownerOf(each)})`)}
                </option>
              ))}
            </select>
          )}
        </Loaded>
      </div>
      {base !== '' && <BaseForm key={base} baseId={base} onDone={props.onDone} />}
    </>
  );
}

function BaseForm(props: { baseId: string; onDone: (made: DataOf<'createTemplate'>) => void }) {
  const read = useRead('getTemplate', { path: { template_id: props.baseId } });
  return (
    <Loaded read={read}>
      {(base) => (
        <BodyForm
          operation="createTemplate"
          sections={[
            { fields: ['name', 'description'] },
            { title: 'What its sandboxes get', fields: [...defaultFields, 'reset_ports'] },
            { title: 'Who sees it, and metadata', fields: ['visibility', 'metadata'] },
          ]}
          labels={labels}
          help={{
            ...help,
            default_cpu_count: `${base.default_cpu_count}, as the other template, if empty.`,
            default_memory_mb: `${base.default_memory_mb}, as the other template, if empty.`,
            ports: 'Added to those of the other template.',
            reset_ports: 'Those that need the access token stay.',
          }}
          inputs={inputs}
          initial={{ start_image_command: base.start_image_command }}
          fixed={{ base_template_id: base.template_id, template_source: base.template_source }}
          changes={['listTemplates', 'getTemplateStorageUsage']}
          submitLabel="Make the template"
          onDone={props.onDone}
        />
      )}
    </Loaded>
  );
}
