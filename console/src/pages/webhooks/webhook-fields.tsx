import { useIsRoot } from '../../api/session.ts';
import type { OwnInput } from '../../components/body-inputs.tsx';
import { EventTypesInput } from './event-types-input.tsx';
import { SecretInput } from './secret.tsx';

/** What the forms of webhooks have in common. */
export const labels = {
  url: 'Address',
  event_types: 'Events',
  scope: 'Events of',
  timeout_seconds: 'Timeout (seconds)',
  max_retries: 'Retries',
};

export const help = {
  url: 'http:// or https://, without user, password and fragment. Usually it must be public on the internet.',
  event_types: '',
  description: '',
  timeout_seconds: 'For one whole attempt, with the reply. Reply at once, and do the work afterwards.',
  max_retries:
    'After the first attempt. They come after 5 s, 30 s, 2 min, 10 min, 30 min, 1 h, 2 h, 4 h, 8 h and 12 h.',
};

/** Without a choice, the API decides by the types of the events. */
const ScopeInput: OwnInput = ({ value, onChange, ...ids }) => (
  <select {...ids} value={value} onChange={(event) => onChange(event.target.value)}>
    {value === '' && <option value="">You; with events of the account, all users</option>}
    <option value="user">You: your sandboxes and templates</option>
    <option value="account">All users of the account</option>
  </select>
);

export const inputs = { event_types: EventTypesInput, scope: ScopeInput, secret: SecretInput };

/** The fields without which a webhook would make no sense. */
export function useMainFields() {
  const isRoot = useIsRoot();
  return isRoot
    ? (['url', 'event_types', 'scope', 'description'] as const)
    : (['url', 'event_types', 'description'] as const);
}

/** Operations whose replies a change of a webhook makes old. */
export const changes = ['listWebhooks', 'getWebhook'] as const;
