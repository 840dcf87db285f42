import fs from 'node:fs';
import path from 'node:path';

/** Replaces `db/migrate.ts`: makes the first account once for each data folder. */
const marker = path.join(process.env.PLATFORM_DATA_DIR!, 'migrated');
const created = !fs.existsSync(marker);
fs.writeFileSync(marker, '');
console.error('[migrator] nothing to do');
console.log(JSON.stringify(created ? { created, apiKey: 'sbp_first', email: 'root@example.org' } : { created }));
