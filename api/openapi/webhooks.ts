import { type EventType, eventTypes } from '../../domain/event-types.ts';

/** The `webhooks` part of the OpenAPI document: the requests to endpoints, by event type. */
export function webhookDocuments(): Record<string, object> {
  return Object.fromEntries(eventTypes.map((each) => [each.type, { post: describeRequest(each) }]));
}

const eventId = 'evt-9ypjhn8d3fkq6w2mzx5v';
const time = '2026-03-01T12:30:00.000Z';
const headers = {
  'webhook-id': [eventId, 'The id of the event, the same in every attempt'],
  'webhook-timestamp': ['1772368200', 'Unix seconds of this attempt'],
  'webhook-signature': ['v1a,<base64> v1,<base64>', 'Signatures of `id.timestamp.body`, separated by spaces'],
} as const;

function describeRequest({ type, description, example }: EventType): object {
  return {
    summary: description,
    tags: ['Webhooks'],
    security: [],
    parameters: Object.entries(headers).map(([name, [value, meaning]]) => ({
      in: 'header',
      name,
      required: true,
      description: meaning,
      schema: { type: 'string', examples: [value] },
    })),
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: {
            type: 'object',
            required: ['id', 'type', 'timestamp', 'data'],
            properties: {
              id: { type: 'string', examples: [eventId] },
              type: { type: 'string', const: type },
              timestamp: { type: 'string', format: 'date-time' },
              data: { type: 'object', additionalProperties: true, examples: [example] },
            },
          },
          example: { id: eventId, type, timestamp: time, data: example },
        },
      },
    },
    responses: {
      '2XX': { description: 'It is delivered' },
      410: { description: 'The endpoint is disabled' },
      default: { description: 'The platform retries, after `Retry-After` if that is later than the usual interval' },
    },
  };
}
