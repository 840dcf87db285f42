import { setTimeout as delay } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import type { PlanCatalog } from '../../db/billing/plans.ts';
import { sandboxNetworks } from '../../db/hosts/hosts.ts';
import type { Orm } from '../../db/orm.ts';
import { importTag } from '../../db/templates/import-jobs.ts';
import {
  beginImportAttempt,
  completeImport,
  failImport,
  findImportAccount,
  type ImportEnd,
  type ImportPlan,
  recordImportProgress,
} from '../../db/templates/import-progress.ts';
import { requestSweep } from '../../db/templates/registry-sweeps.ts';
import { Template } from '../../db/templates/template.entity.ts';
import type { TemplateImage } from '../../db/templates/template-changes.ts';
import { describeExcess, storageExcess } from '../../db/templates/template-storage.ts';
import { FairSemaphore } from '../../domain/fair-semaphore.ts';
import type { ImportJobId } from '../../domain/ids.ts';
import { registryImage } from '../../domain/templates/image.ts';
import { listBlobs } from '../../domain/templates/image-manifest.ts';
import { parseImageReference } from '../../domain/templates/image-reference.ts';
import { UnusableImageError } from '../../integrations/registry/external-image.ts';
import { ImageImports, type ImportProgress, TargetError } from '../../integrations/registry/image-import.ts';
import { ForbiddenAddressError } from '../../integrations/registry/outbound-guard.ts';
import type { PlatformRegistry } from '../../integrations/registry/platform-registry.ts';
import { RegistryError } from '../../integrations/registry/registry-client.ts';
import { SkopeoError } from '../../integrations/registry/skopeo.ts';
import type { PlatformSecrets } from '../../platform/config/secrets.ts';
import type { Settings } from '../../platform/config/settings.ts';
import { removeIfUnused } from './registry-images.ts';

/**
 * The number of concurrent copies in one worker, and of one account. The registries of an account may be slow. Further
 * copies wait and send heartbeats.
 */
const maxConcurrentCopies = 10;
const copiesOfAccount = 4;
const progressMs = 1000;
const maxWaitingLines = 200;

export interface ImageImportDeps {
  orm: Orm;
  plans: PlanCatalog;
  secrets: PlatformSecrets;
  settings: Settings;
  registry: PlatformRegistry | null;
}

/**
 * Activities for the import of an external image. Passwords are decrypted here. They are in no argument and no result,
 * and only encrypted in rows.
 */
export function createImageImportActivities({ orm, plans, secrets, settings, registry }: ImageImportDeps) {
  const imports = registry && new ImageImports(settings, registry, () => sandboxNetworks(orm.em));
  const turns = new FairSemaphore(maxConcurrentCopies, copiesOfAccount);

  async function copy(jobId: ImportJobId, context: Context): Promise<TemplateImage> {
    if (!registry || !imports) throw final('import_failed', 'The platform has no registry');
    const plan = await beginWhenOpen(jobId, context);
    if (!plan) throw final('import_over', 'The import is over');
    const reference = parseImageReference(plan.externalImageUrl);
    if (!reference) throw final('import_failed', 'The external image has no valid reference');
    const attempt = new Attempt(orm, jobId, context);
    try {
      const image = await imports.copy({
        reference,
        credentials: openCredentials(plan),
        to: plan,
        onFound: ({ manifest, sizeBytes }) => {
          attempt.note(`found ${plan.externalImageUrl}: ${manifest.layers.length} layers, ${sizeBytes} bytes`);
          return requireStorageLeft(plan, listBlobs(manifest));
        },
        onProgress: (progress) => attempt.report(progress),
        onLine: (line) => attempt.note(line),
        signal: attempt.signal,
      });
      await attempt.end(`copied; ${attempt.bytesRead} bytes read`);
      const { project, repository } = parsePlace(plan, registry.prefix);
      return {
        image: registryImage(plan.path, image.digest),
        registryImageUrl: plan.url,
        registryProject: project,
        registryRepository: repository,
        registryTag: plan.tag,
        imageSizeBytes: image.sizeBytes,
        imageBlobs: image.blobs,
      };
    } catch (error) {
      const failure = attempt.isOver ? final('import_over', 'The import is over') : toImportFailure(error);
      if (!attempt.isOver && !context.cancellationSignal.aborted) attempt.fail(failure.message);
      await attempt.end(null);
      context.cancellationSignal.throwIfAborted();
      throw failure;
    }
  }

  /** Waits while the registry is being swept, which takes seconds, or an image of the repository is being removed. */
  async function beginWhenOpen(jobId: ImportJobId, context: Context): Promise<ImportPlan | null> {
    for (;;) {
      const plan = await beginImportAttempt(orm.em, jobId, context.info.attempt - 1);
      if (plan !== 'wait') return plan;
      context.heartbeat();
      await delay(progressMs, undefined, { signal: context.cancellationSignal });
    }
  }

  function openCredentials({ templateId, username, sealedPassword }: ImportPlan) {
    if (!username) return null;
    const password = sealedPassword === null ? '' : secrets.openRegistryPassword(templateId, sealedPassword);
    return { username, password };
  }

  async function requireStorageLeft(plan: ImportPlan, blobs: ReturnType<typeof listBlobs>): Promise<void> {
    const em = orm.em.fork();
    const template = await em.findOne(Template, { templateId: plan.templateId });
    if (!template) throw final('import_over', 'The import is over');
    const excess = await storageExcess(em, plans, template, blobs, plan.jobId);
    if (excess) throw final('template_storage_limit_reached', describeExcess(excess));
  }

  return {
    /**
     * Copies the image of a job, and continues where an earlier attempt has stopped. @returns the image for the
     * template
     */
    async copyImage(jobId: ImportJobId): Promise<TemplateImage> {
      const context = Context.current();
      const accountId = await findImportAccount(orm.em, jobId);
      if (!accountId) throw final('import_over', 'The import is over');
      const waiting = setInterval(() => context.heartbeat(), progressMs);
      const turn = await turns.take(accountId, context.cancellationSignal).finally(() => clearInterval(waiting));
      try {
        return await copy(jobId, context);
      } finally {
        turn.release();
      }
    },
    completeImport: (jobId: ImportJobId, image: TemplateImage): Promise<ImportEnd> =>
      completeImport(orm.em, plans, jobId, image),
    failImport: (jobId: ImportJobId, reason: string): Promise<void> => failImport(orm.em, jobId, reason),
    failForRoom: (jobId: ImportJobId): Promise<void> => failImport(orm.em, jobId, overStorageText),
    /**
     * Removes the blobs and manifests that a cancelled or refused import has pushed, unless something refers to them.
     */
    async discardImport(path: string): Promise<void> {
      const found = await registry?.find(path, importTag);
      if (registry && found) await removeIfUnused({ orm, registry }, registryImage(path, found.digest));
      // The blobs have no manifest, so only a sweep finds them.
      await requestSweep(orm.em);
    },
  };
}

const overStorageText = 'The image is beyond the storage for images of templates that the plan or a quota allows';

/** A failure that further attempts cannot resolve. */
function final(type: string, message: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, type);
}

/** Converts an error to a failure with a public text, retryable if another attempt may succeed. */
function toImportFailure(error: unknown): ApplicationFailure {
  if (error instanceof ApplicationFailure) return error;
  if (error instanceof UnusableImageError) return final('image_unusable', error.message);
  if (error instanceof ForbiddenAddressError) return final('address_forbidden', error.message);
  if (error instanceof RegistryError) {
    const isRefusal = [401, 403, 404].includes(error.status);
    // The registry sent a manifest, but the manifest is invalid.
    const isWrong = error.status === 200;
    if (isRefusal || isWrong) return final('registry_refuses', error.message);
    return ApplicationFailure.retryable(error.message, 'registry_failed');
  }
  if (error instanceof TargetError) return ApplicationFailure.retryable(error.message, 'target_failed');
  const text = 'The image could not be copied; the log of the import says more';
  return ApplicationFailure.retryable(
    error instanceof SkopeoError ? text : 'The image could not be copied',
    'copy_failed',
  );
}

function parsePlace({ path }: ImportPlan, prefix: string): { project: string; repository: string } {
  const [project = '', ...rest] = path.slice(prefix.length).split('/');
  return { project, repository: rest.join('/') };
}

/** One attempt: its heartbeats, and its writes to the row of the job. */
class Attempt {
  bytesRead = 0;
  readonly signal: AbortSignal;
  /** The job was cancelled or deleted. */
  isOver = false;
  readonly #over = new AbortController();
  readonly #orm: Orm;
  readonly #jobId: ImportJobId;
  readonly #context: Context;
  readonly #timer: NodeJS.Timeout;
  #progress: ImportProgress | null = null;
  #lines: string[] = [];
  #error: string | null = null;
  #percentage = 0;
  #bytesSent = 0;
  #bytesRecorded = 0;
  #writing: Promise<void> = Promise.resolve();

  constructor(orm: Orm, jobId: ImportJobId, context: Context) {
    this.#orm = orm;
    this.#jobId = jobId;
    this.#context = context;
    this.signal = AbortSignal.any([context.cancellationSignal, this.#over.signal]);
    this.#timer = setInterval(() => this.#flush(), progressMs);
  }

  note(line: string): void {
    if (this.#lines.length < maxWaitingLines) this.#lines.push(line.replaceAll('\0', ''));
  }

  report(progress: ImportProgress): void {
    const { bytesDone, bytesTotal } = progress;
    this.bytesRead = progress.bytesRead;
    this.#bytesSent = progress.bytesSent;
    this.#percentage = bytesTotal === 0 ? 0 : Math.floor((100 * bytesDone) / bytesTotal);
    this.#progress = progress;
  }

  /** @param reason shown as the error of the job until an attempt succeeds */
  fail(reason: string): void {
    this.note(`failed: ${reason}`);
    this.#error = reason.replaceAll('\0', '');
  }

  /**
   * Writes the latest progress.
   * @param line the newest line of the log
   */
  async end(line: string | null): Promise<void> {
    clearInterval(this.#timer);
    if (line !== null) this.note(line);
    this.#flush();
    await this.#writing;
  }

  #flush(): void {
    this.#context.heartbeat(this.#progress);
    const newLines = this.#lines;
    this.#lines = [];
    const percentage = this.#percentage;
    const newBytes = this.#bytesSent - this.#bytesRecorded;
    this.#bytesRecorded += newBytes;
    this.#writing = this.#writing
      .then(() =>
        recordImportProgress(this.#orm.em, this.#jobId, { percentage, newLines, newBytes, error: this.#error }),
      )
      .then((isActive) => {
        if (isActive) return;
        this.isOver = true;
        this.#over.abort(new Error('The import is over'));
      })
      // The next write repeats it. An outage of the database must not end a copy.
      .catch(() => {
        this.#lines = [...newLines, ...this.#lines];
        this.#bytesRecorded -= newBytes;
      });
  }
}

export type ImageImportActivities = ReturnType<typeof createImageImportActivities>;
