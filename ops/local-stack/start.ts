import path from 'node:path';
import { writesToJournal } from '../../platform/config/journal.ts';
import { reportReady } from '../../platform/config/service-manager.ts';
import { SettingsError } from '../../platform/config/settings.ts';
import { ProgramError } from './embedded/child-program.ts';
import { PortTakenError } from './embedded/ports.ts';
import { DataFolderInUseError, openDataFolder } from './supervisor/data-folder.ts';
import { Platform, type StartedPlatform } from './supervisor/platform.ts';
import { platformEnvFile } from './supervisor/platform-env.ts';
import { namesAdvice } from './supervisor/sandbox-names.ts';

/** `npm start`, and `sandbox-platform.service`: the whole platform on this machine, until Ctrl-C or SIGTERM. */
const startedMs = Date.now();
const dataDir = path.resolve(process.env.PLATFORM_DATA_DIR || '.data');

/** Errors with a complete message, for which a stack would only be noise. */
const plainErrors = [SettingsError, ProgramError, PortTakenError, DataFolderInUseError];

/** The journal has the time of each line. */
const isService = writesToJournal();

function report(text: string): void {
  console.error(isService ? text : `${new Date().toTimeString().slice(0, 8)}  ${text}`);
}

/** Quoted for a shell. */
function quoted(file: string): string {
  return /^[\w./-]+$/.test(file) ? file : `'${file.replaceAll("'", "'\\''")}'`;
}

/** The first user has no password. */
function firstSignIn(email: string): string {
  return `npm run admin -- reset-password --email ${email}  makes the link to set the first password`;
}

async function announce({ env, settings, newApiKey }: StartedPlatform): Promise<void> {
  const advice = await namesAdvice(settings.PLATFORM_BASE_DOMAIN);
  const rows = [
    ['Console', `${env.PLATFORM_URL}/console/`],
    ...(newApiKey ? [['', firstSignIn(settings.PLATFORM_ROOT_EMAIL)]] : []),
    ['API', env.PLATFORM_URL],
    ['API docs', `${env.PLATFORM_URL}/docs`],
    ['Gateway', `${env.PLATFORM_GATEWAY}  (sandboxes are *.${settings.PLATFORM_BASE_DOMAIN})`],
    ...(advice ? [['', advice]] : []),
    ['Temporal UI', env.TEMPORAL_UI_URL ?? 'none known'],
    ['Logs', isService ? 'in the journal' : path.join(dataDir, 'logs')],
    ['Environment', `set -a; . ${quoted(platformEnvFile(dataDir))}; set +a`],
    // Others than its owner may read the journal.
    ...(newApiKey
      ? [['API key', isService ? 'in that file' : `${newApiKey}  (also in that file; not shown again)`]]
      : []),
  ];
  await reportReady();
  const stopAdvice = isService ? '' : ' Ctrl-C stops the platform; sandboxes continue.';
  console.log(`\nReady in ${((Date.now() - startedMs) / 1000).toFixed(1)} s.${stopAdvice}\n`);
  for (const [name, value] of rows) console.log(`  ${name!.padEnd(12)} ${value}`);
  console.log('');
}

function fail(error: unknown): void {
  const isPlain = plainErrors.some((known) => error instanceof known);
  console.error(isPlain ? `\n${(error as Error).message}` : error);
  process.exitCode = 1;
}

// One Ctrl-C causes several signals: from the terminal, and forwarded by npm.
let askedToStop = false;
const stopAsked = new Promise<void>((resolve) => {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      if (!askedToStop) console.log('\nStopping …');
      askedToStop = true;
      resolve();
    });
  }
});

try {
  const folder = await openDataFolder(dataDir, process.env.PLATFORM_SECRET_KEY || undefined);
  const platform = new Platform(folder, process.env, report);
  try {
    const started = platform.start().then(announce);
    await Promise.race([started, stopAsked]);
    await stopAsked;
  } catch (error) {
    if (!askedToStop) fail(error);
  } finally {
    await platform.stop();
    await folder.release();
  }
} catch (error) {
  fail(error);
}
