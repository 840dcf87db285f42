import { playCampaign } from '../hostile/campaign.ts';

/** `hostile-campaign.ts <rounds> <seed> <rounds of a block>`: prints the result as JSON and ends by itself. */
const [rounds, seed, blockRounds] = process.argv.slice(2).map(Number) as [number, number, number];
const result = await playCampaign({ rounds, seed, blockRounds, concurrency: 32 });
process.stdout.write(JSON.stringify(result));
