import { SeededRandom } from '../hostile/random.ts';
import { RequestComparison } from './compare-requests.ts';
import { compareResponse } from './compare-responses.ts';
import { requestText } from './requests.ts';
import { responseText } from './responses.ts';

/** Compares so many generated responses, each split at every place. */
export function compareRandomResponses(seed: number, count: number): { findings: string[]; accepted: number } {
  const random = new SeededRandom(seed);
  const findings: string[] = [];
  let accepted = 0;
  for (let made = 0; made < count; made += 1) {
    const text = responseText(random);
    const method = random.pick(['GET', 'GET', 'GET', 'POST', 'HEAD']);
    const everyPlace = Array.from({ length: text.length - 1 }, (_, at) => at + 1);
    const compared = compareResponse(text, method, everyPlace);
    findings.push(...compared.findings.map((finding) => `${method} ${JSON.stringify(text)}: ${finding}`));
    if (compared.refusal === null) accepted += 1;
  }
  return { findings, accepted };
}

/** Sends so many generated requests through a gateway, each in two pieces. */
export async function compareRandomRequests(
  comparison: RequestComparison,
  seed: number,
  count: number,
): Promise<{ findings: string[]; passed: number }> {
  const random = new SeededRandom(seed);
  const findings: string[] = [];
  let passed = 0;
  for (let made = 0; made < count; made += 1) {
    const text = requestText(random, RequestComparison.host);
    const compared = await comparison.compare(text, random.below(text.length));
    if (compared.finding !== null) findings.push(`${JSON.stringify(text)}: ${compared.finding}`);
    if (compared.passed) passed += 1;
  }
  return { findings, passed };
}
