import path from 'node:path';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { AgentEnvironment } from '../boot/environment.ts';
import {
  type ChartElementSchema,
  type ChartSchema,
  ContextService,
  type ExecuteResponseSchema,
  ExecutionService,
  type PointSchema,
} from '../proto/gen/sandboxagent_pb.js';
import { type AgentService, agentService } from '../rpc/service.ts';
import type { Chart, ChartElement, Point } from './chart.ts';
import type { Contexts } from './contexts.ts';
import type { ExecuteEvent } from './execution-output.ts';

/** Returns the contexts of the sandbox. */
export type OpenContexts = () => Promise<Contexts>;

/** Loads the contexts at the first call, because most sandboxes never use them. */
export function contextsOf(environment: AgentEnvironment): OpenContexts {
  let opened: Promise<Contexts> | undefined;
  return () => {
    opened ??= import('./contexts.ts').then(({ Contexts }) => new Contexts({ environment, scripts: kernelScripts() }));
    return opened;
  };
}

/** `sandboxagent.ContextService` and `sandboxagent.ExecutionService`. */
export function contextServices(open: OpenContexts): AgentService[] {
  return [
    agentService(ContextService, {
      async createContext({ language, cwd }, call) {
        const { createdAt, ...context } = await (await open()).create({ language, cwd }, call.signal);
        return { ...context, createdAt: timestampFromDate(createdAt) };
      },
      async destroyContext({ contextId }) {
        await (await open()).destroy(contextId);
        return { success: true };
      },
    }),
    agentService(ExecutionService, {
      async *execute({ contextId, code, language, envVars }, call) {
        const wantsData = call.header('accept-result-data') === '1';
        const request = { contextId, code, language, envVars: { ...envVars }, wantsData };
        const contexts = await open();
        for await (const event of contexts.execute(request, call.signal)) yield { event: toMessage(event, wantsData) };
      },
    }),
  ];
}

/** The folder of the kernel scripts. Its relative place is the same for the bundle and for the sources. */
function kernelScripts(): string {
  return path.join(path.dirname(process.argv[1]!), 'contexts', 'kernels');
}

function toMessage(event: ExecuteEvent, wantsData: boolean): MessageInitShape<typeof ExecuteResponseSchema>['event'] {
  switch (event.type) {
    case 'stdout':
    case 'stderr':
      return { case: event.type, value: { content: event.content } };
    case 'error':
      return { case: 'error', value: event.error };
    case 'result': {
      const { chart, startedAt, finishedAt, ...result } = event.result;
      // Published clients fail on a result with `data`, so only callers that ask for it get it.
      if (!wantsData) delete result.data;
      const times = { startedAt: timestampFromDate(startedAt), finishedAt: timestampFromDate(finishedAt) };
      return { case: 'result', value: { ...result, ...times, ...(chart && { chart: chartMessage(chart) }) } };
    }
  }
}

function chartMessage({ type, title, elements, extra }: Chart): MessageInitShape<typeof ChartSchema> {
  return { type, title, elements: elements.map(elementMessage), extra };
}

function elementMessage(element: ChartElement): MessageInitShape<typeof ChartElementSchema> {
  switch (element.kind) {
    case 'point':
      return {
        element: { case: 'pointData', value: { label: element.label, points: element.points.map(pointMessage) } },
      };
    case 'bar':
      return { element: { case: 'barData', value: element } };
    case 'pie':
      return { element: { case: 'pieData', value: element } };
    case 'box':
      return { element: { case: 'boxWhiskerData', value: { label: element.label, ...element.box } } };
    case 'nested':
      return { element: { case: 'nestedChart', value: chartMessage(element.chart) } };
  }
}

function pointMessage({ x, y }: Point): MessageInitShape<typeof PointSchema> {
  return {
    x:
      typeof x === 'number'
        ? { case: 'xNum', value: x }
        : x === undefined
          ? { case: undefined }
          : { case: 'xStr', value: x },
    y:
      typeof y === 'number'
        ? { case: 'yNum', value: y }
        : y === undefined
          ? { case: undefined }
          : { case: 'yStr', value: y },
  };
}
