import { Link } from '@tanstack/react-router';
import { useId } from 'react';
import type { DataOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { useSession } from '../../api/session.ts';
import type { OwnInput } from '../../components/body-inputs.tsx';
import { Text } from '../../components/values.tsx';
import { formatCount, formatMegabytes } from '../../format/numbers.ts';
import { visibleText } from '../../format/text.ts';
import { ownerOf } from '../templates/template-values.ts';

type Item = DataOf<'listTemplates'>['templates'][number];

/** A choice among the templates that can be used, which the person searches by writing. Any name or id is taken. */
export const TemplateInput: OwnInput = ({ value, onChange, ...ids }) => {
  const listId = useId();
  const { user_id } = useSession();
  const templates = useRead('listTemplates', { query: { usable: 'true', limit: 100 } }).data?.templates ?? [];
  const reference = (template: Item) => {
    const isOfOther = template.owner_user_id !== user_id && template.visibility !== 'public' && template.owner;
    return isOfOther ? `${isOfOther.username}/${template.name}` : template.name;
  };
  return (
    <>
      <input
        {...ids}
        list={listId}
        placeholder="base"
        autoComplete="off"
        spellCheck={false}
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
      <datalist id={listId}>
        {templates.map((each) => (
          <option key={each.template_id} value={reference(each)}>
            {visibleText(`${each.name} · ${ownerOf(each)} · ${sizeOf(each)}`)}
          </option>
        ))}
      </datalist>
      <Chosen
        known={templates.find((each) => each.template_id === value || reference(each) === (value || 'base'))}
        value={value}
      />
    </>
  );
};

const sizeOf = (template: Item) =>
  `${formatCount(template.default_cpu_count)} CPU, ${formatMegabytes(template.default_memory_mb)}`;

/** What a sandbox of the chosen template gets. */
function Chosen({ known, value }: { known: Item | undefined; value: string }) {
  const isId = known === undefined && /^tpl-[a-z0-9]+$/.test(value);
  const read = useRead('getTemplate', { path: { template_id: value } }, { when: isId });
  const template = known ?? (isId ? read.data : undefined);
  if (!template) return null;
  const { template_id: templateId, name, ports } = template;
  return (
    <p className="soft">
      <Link to="/templates/$templateId" params={{ templateId }}>
        <Text>{name}</Text>
      </Link>{' '}
      of <Text>{ownerOf(template)}</Text>: {sizeOf(template)}
      {ports.length > 0 && `, ports ${ports.map(({ port }) => port).join(', ')}`}
    </p>
  );
}

/** A choice among the person's own projects. */
export const ProjectInput: OwnInput = ({ value, onChange, ...ids }) => {
  const { user_id, is_root_user, role } = useSession();
  const ofOwner = is_root_user || role === 'admin' ? { owner_user_id: user_id } : {};
  const projects = useRead('listProjects', { query: { limit: 100, ...ofOwner } }).data?.projects ?? [];
  const standard = projects.find((each) => each.is_default);
  const isListed = value === '' || projects.some((each) => each.project_id === value);
  return (
    <select
      {...ids}
      value={value === standard?.project_id ? '' : value}
      onChange={(event) => onChange(event.target.value)}
    >
      <option value="">{visibleText(standard?.name ?? 'Default')}</option>
      {!isListed && <option value={value}>{visibleText(value)}</option>}
      {projects
        .filter((each) => each !== standard)
        .map((each) => (
          <option key={each.project_id} value={each.project_id}>
            {visibleText(each.name)}
          </option>
        ))}
    </select>
  );
};

export const RegionInput: OwnInput = ({ value, onChange, ...ids }) => {
  const regions = useRead('listPlatformRegions').data?.platform_regions ?? [];
  return (
    <select {...ids} value={value} onChange={(event) => onChange(event.target.value)}>
      <option value="">Any</option>
      {regions.map(({ id, name }) => (
        <option key={id} value={id}>
          {visibleText(name)}
        </option>
      ))}
    </select>
  );
};
