/** The maximum length of one value, and of all values of one event. */
const [longestValue, longestLine] = [200, 600];

/** An event of a history in the CLI's JSON. */
export interface HistoryEvent {
  eventId: string;
  eventTime: string;
  eventType: string;
  userMetadata?: { summary?: unknown };
  [attributes: string]: unknown;
}

type Fields = Record<string, unknown>;

/** Events without information about a workflow's behaviour. */
const hidden = new Set([
  'WorkflowTaskScheduled',
  'WorkflowTaskStarted',
  'WorkflowTaskCompleted',
  'ActivityTaskStarted',
]);

/**
 * One line per event: its number, time and name, its subject, and its decoded input or result. A result's line has the
 * name of its activity or timer. Long values are truncated, and encrypted ones left out.
 * @param events in order, with decrypted payloads
 */
export function* readableLines(events: Iterable<HistoryEvent>): Generator<string> {
  const begun = new Map<string, { subject: string; atMs: number }>();
  for (const event of events) {
    const name = formatName(event.eventType);
    const attributes = findAttributes(event);
    const subject = formatSubject(name, attributes, event);
    if (subject) begun.set(event.eventId, { subject, atMs: Date.parse(event.eventTime) });
    if (hidden.has(name)) continue;
    const about = subject || whatEnds(attributes, begun, Date.parse(event.eventTime));
    const time = event.eventTime.replace('T', ' ').replace(/(\.\d{3})\d*Z$|Z$/, (_, ms) => ms ?? '.000');
    const number = event.eventId.padStart(5);
    yield [number, time, name.padEnd(34), [about, formatValues(name, attributes)].filter(Boolean).join('  ')]
      .join('  ')
      .trimEnd();
  }
}

/** Converts `EVENT_TYPE_TIMER_STARTED` or `TimerStarted` to `TimerStarted`. */
function formatName(type: string): string {
  if (!type.startsWith('EVENT_TYPE_')) return type;
  const words = type.slice('EVENT_TYPE_'.length).toLowerCase().split('_');
  return words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join('');
}

function findAttributes(event: HistoryEvent): Fields {
  const key = Object.keys(event).find((each) => each.endsWith('EventAttributes'));
  return key ? toFields(event[key]) : {};
}

/** The subject of an event, from its own attributes. Empty: see `whatEnds`. */
function formatSubject(name: string, attributes: Fields, event: HistoryEvent): string {
  const summary = payloadValues(event.userMetadata?.summary).map(toText).join(' ');
  switch (name) {
    case 'WorkflowExecutionStarted':
      return toText(toFields(attributes.workflowType).name);
    case 'ActivityTaskScheduled': {
      const queue = toText(toFields(attributes.taskQueue).name);
      return [toText(toFields(attributes.activityType).name), queue && `on ${queue}`].filter(Boolean).join(' ');
    }
    case 'TimerStarted':
      return [`${toText(attributes.startToFireTimeout)}`, summary && `(${summary})`].filter(Boolean).join(' ');
    case 'MarkerRecorded':
      return findLocalActivity(attributes) || toText(attributes.markerName);
    case 'WorkflowExecutionSignaled':
      return toText(attributes.signalName);
    case 'WorkflowExecutionUpdateAccepted':
      return toText(toFields(toFields(attributes.acceptedRequest).input).name);
    case 'StartChildWorkflowExecutionInitiated':
      return toText(toFields(attributes.workflowType).name);
    default:
      return '';
  }
}

/** The activity, timer or update that an event ends, with its duration. */
function whatEnds(
  attributes: Fields,
  begun: ReadonlyMap<string, { subject: string; atMs: number }>,
  atMs: number,
): string {
  const id = attributes.scheduledEventId ?? attributes.acceptedEventId ?? attributes.startedEventId;
  const first = begun.get(toText(id));
  return first ? `${first.subject} after ${((atMs - first.atMs) / 1000).toFixed(3)} s` : '';
}

function findLocalActivity(attributes: Fields): string {
  if (attributes.markerName !== 'core_local_activity') return '';
  const [data] = payloadValues(toFields(attributes.details).data);
  return toText(toFields(data).activity_type);
}

/** The decoded values of an event, and its failure. */
function formatValues(name: string, attributes: Fields): string {
  const texts: string[] = [];
  const add = (sign: string, payloads: unknown) => {
    const values = payloadTexts(payloads);
    if (values.length > 0) texts.push(`${sign}${values.join(', ')}`);
  };
  if (name !== 'MarkerRecorded') add('', attributes.input);
  add('', toFields(toFields(attributes.acceptedRequest).input).args);
  add('→ ', attributes.result ?? toFields(attributes.details).result);
  add('→ ', toFields(attributes.outcome).success);
  for (const failure of [attributes.failure, toFields(attributes.outcome).failure]) {
    if (failure) texts.push(`✗ ${failureText(toFields(failure))}`);
  }
  if (attributes.searchAttributes) {
    const indexed = Object.entries(toFields(toFields(attributes.searchAttributes).indexedFields));
    texts.push(indexed.map(([key, payload]) => `${key}=${payloadTexts(payload).join()}`).join(' '));
  }
  const line = texts.join('  ').replaceAll(/\s*\n\s*/g, ' ');
  return line.length > longestLine ? `${line.slice(0, longestLine)}…` : line;
}

function failureText(failure: Fields): string {
  const type = toText(toFields(failure.applicationFailureInfo).type);
  const cause = failure.cause ? `; ${failureText(toFields(failure.cause))}` : '';
  return `${type ? `${type}: ` : ''}${toText(failure.message)}${cause}`;
}

function payloadTexts(given: unknown): string[] {
  return payloadValues(given).map((value) => JSON.stringify(shortened(value)) ?? 'undefined');
}

/** The values of payloads in all forms that the CLI prints: messages, lists of them, and plain values. */
function payloadValues(given: unknown): unknown[] {
  if (given === undefined || given === null) return [];
  if (Array.isArray(given)) return given.flatMap((each) => (isPayload(each) ? payloadValues(each) : [each]));
  const fields = toFields(given);
  if (Array.isArray(fields.payloads)) return payloadValues(fields.payloads);
  return [isPayload(given) ? payloadValue(given as Payload) : given];
}

interface Payload {
  metadata?: Record<string, string>;
  data?: string;
}

const isPayload = (value: unknown) => 'encoding' in toFields(toFields(value).metadata);

function payloadValue({ metadata, data = '' }: Payload): unknown {
  const encoding = Buffer.from(metadata?.encoding ?? '', 'base64').toString();
  if (encoding === 'binary/null') return null;
  if (encoding !== 'json/plain') return `<${encoding}>`;
  return JSON.parse(Buffer.from(data, 'base64').toString());
}

/** The value without encrypted texts, and with truncated long texts. */
function shortened(value: unknown, key = ''): unknown {
  if (/sealed/i.test(key) && value !== null) return '<sealed>';
  if (typeof value === 'string' && value.length > longestValue) return `${value.slice(0, longestValue)}…`;
  if (Array.isArray(value)) return value.map((each) => shortened(each));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, shortened(each, name)]));
}

const toFields = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {});

const toText = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : '';
