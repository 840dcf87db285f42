import { useState } from 'react';
import type { DataOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { useIsRoot } from '../../api/session.ts';
import { Explained, type OwnInput } from '../../components/body-inputs.tsx';
import { Loaded } from '../../components/loaded.tsx';

type EventType = DataOf<'listEventTypes'>['event_types'][number];

const familyOf = (type: string) => type.slice(0, type.indexOf('.'));

/** What the families are about. Families that a later release adds are shown by their name. */
const families: Readonly<Record<string, string>> = {
  sandbox: 'Sandboxes',
  template: 'Templates',
  exec: 'Commands',
  payment: 'Payments',
  subscription: 'Plan',
  budget: 'Budgets',
};

/** A choice of events: all, whole families, or single types. The value has one of them a line, as the API names them. */
export const EventTypesInput: OwnInput = ({ id, value, onChange, 'aria-describedby': describedBy }) => {
  const isRoot = useIsRoot();
  const read = useRead('listEventTypes');
  const chosen = new Set(value.split('\n').filter((each) => each !== ''));
  const choose = (name: string, isChosen: boolean, instead: (other: string) => boolean) => {
    const kept = [...chosen].filter((each) => each !== name && !(isChosen && instead(each)));
    onChange((isChosen ? [...kept, name] : kept).join('\n'));
  };
  return (
    <Loaded read={read}>
      {({ event_types: all }) => {
        // The types of the account stay visible to whoever edits a webhook that has them.
        const types = all.filter(({ type, scope }) => isRoot || scope === 'user' || chosen.has(type));
        return (
          <fieldset id={id} aria-label="Events" aria-describedby={describedBy}>
            <Choice
              label="All events"
              what={`Also types that later releases add. Without ends of commands, which are many${isRoot ? ', and with events of the account only for all users' : ''}.`}
              isChosen={chosen.has('*')}
              // The API would ignore that nothing is chosen.
              problem={chosen.size === 0 ? 'Choose at least one type of events' : ''}
              onChange={(isChosen) => choose('*', isChosen, (other) => familyOf(other) !== 'exec')}
            />
            {[...new Set(types.map(({ type }) => familyOf(type)))].map((family) => (
              <Family
                key={family}
                family={family}
                types={types.filter(({ type }) => familyOf(type) === family)}
                chosen={chosen}
                choose={choose}
              />
            ))}
          </fieldset>
        );
      }}
    </Loaded>
  );
};

function Family(props: {
  family: string;
  types: readonly EventType[];
  chosen: ReadonlySet<string>;
  choose: (name: string, isChosen: boolean, instead: (other: string) => boolean) => void;
}) {
  const { family, types, chosen, choose } = props;
  const whole = `${family}.*`;
  const isOfAccount = types.some(({ scope }) => scope === 'account');
  const isInAll = chosen.has('*') && family !== 'exec';
  const isWhole = isInAll || chosen.has(whole);
  const [isOpen] = useState(types.some(({ type }) => chosen.has(type)));
  return (
    <details open={isOpen}>
      <summary>
        {families[family] ?? family}
        {isOfAccount && <span className="soft"> · of the account</span>}
        {isWhole && <span className="soft"> · all</span>}
      </summary>
      <Choice
        label={whole}
        what="The whole family"
        isChosen={isWhole}
        isImplied={isInAll}
        onChange={(isChosen) => choose(whole, isChosen, (other) => familyOf(other) === family)}
      />
      {types.map(({ type, description }) => (
        <Choice
          key={type}
          label={type}
          what={description}
          isChosen={isWhole || chosen.has(type)}
          isImplied={isWhole}
          onChange={(isChosen) => choose(type, isChosen, () => false)}
        />
      ))}
    </details>
  );
}

/** @param props.isImplied a wider choice includes it */
function Choice(props: {
  label: string;
  what: string;
  isChosen: boolean;
  isImplied?: boolean;
  problem?: string;
  onChange: (isChosen: boolean) => void;
}) {
  return (
    <label className="checked-label">
      <input
        ref={(input) => input?.setCustomValidity(props.problem ?? '')}
        type="checkbox"
        checked={props.isChosen}
        disabled={props.isImplied}
        onChange={(event) => props.onChange(event.target.checked)}
      />
      <span>
        {props.label}
        <span className="soft">
          {' – '}
          <Explained text={props.what} />
        </span>
      </span>
    </label>
  );
}
