import {
  ActivityFailure,
  type ApplicationFailure,
  allHandlersFinished,
  CancellationScope,
  condition,
  continueAsNew,
  isCancellation,
  patched,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { HostedPlace } from '../activities/sandbox-host.ts';
import type { LifePlan } from '../domain/life-plan.ts';
import type { StorageChange } from '../domain/object-storage.ts';
import { expiryWarningMs, persistenceExpiresAt } from '../domain/persistence.ts';
import type { Port } from '../domain/ports.ts';
import { isOver, outcomeOf, type SandboxReason, type SandboxStatus } from '../domain/sandbox-state.ts';
import { nextWarning } from '../domain/timeout-warnings.ts';
import { sandboxSearchAttributes } from '../temporal/search-attributes.ts';
import { HostLoss, HostLostError, hostLostFailure, hostUnavailable } from './host-loss.ts';
import { cleaningOn, pausingOn, rows, startingOn } from './sandbox-activities.ts';
import {
  asRefusal,
  diskLostFailure,
  type HostFailure,
  isNoLife,
  neverStarted,
  readExit,
  readHostFailure,
  refused,
} from './sandbox-failure.ts';
import { SandboxInbox } from './sandbox-inbox.ts';
import {
  addPortUpdate,
  connectUpdate,
  endSignal,
  type HostReport,
  hostLostSignal,
  hostReportSignal,
  hostRestartedSignal,
  lifeQuery,
  pauseUpdate,
  projectSwitchedSignal,
  type RuntimeExit,
  removePortUpdate,
  restartUpdate,
  resumeUpdate,
  runtimeExitedSignal,
  type SandboxLifeView,
  type SandboxStanding,
  type SandboxWorkflowInput,
  settledUpdate,
  storageCredentialsUpdate,
  type TimeoutChange,
  type TimeoutStanding,
  terminateUpdate,
  timeoutUpdate,
} from './sandbox-messages.ts';
import { SandboxPorts } from './sandbox-ports.ts';

/** An auto-pause that does not take is tried this often; then the processes are ended and the disk is kept. */
const autoPauseTries = 3;
const autoPauseRetryMs = 20_000;
/** How long a start waits for credentials: longer than its caller tries to bring them. */
const credentialsPatienceMs = 90_000;
/** A start leaves this many hosts whose disk is full for another. */
const fullHostsTried = 3;

/** Events after which a life goes on in a next run, also on a server that does not suggest it. */
const longestHistory = 6000;

/**
 * The life of one sandbox, from `created` to `terminated` or `failed` (section 3.1). It alone decides the status;
 * the row in Postgres follows it. Started with the sandbox's id as workflow id.
 */
export async function sandbox(input: SandboxWorkflowInput): Promise<void> {
  const life = new SandboxLife(input);
  life.listen();
  await life.live();
}

/** A pause or resume under way, and who waits for it. */
interface Transition {
  /** What a resume makes of the mounts. */
  storage?: StorageChange;
  /** Somebody is answered as soon as the row says `pausing` or `resuming`. */
  hurried: boolean;
  /** The row says so. */
  recorded: boolean;
  done: boolean;
  refusal: ApplicationFailure | null;
}

/** A restart under way. `from` is where the sandbox still is when the restart is refused before anything was ended. */
interface Restart extends Transition {
  from: 'running' | 'paused';
}

class SandboxLife {
  readonly #id: string;
  #plan: LifePlan;
  #status: SandboxStatus = 'starting';
  #reason: SandboxReason | null = null;
  /** What operators search by, as it was last told; a life is started with it. */
  #published: string;

  #timeoutSeconds: number;
  #timeoutFromMs = 0;
  #pausedAtMs = 0;
  /** A paused one still has its processes, frozen. */
  #memoryKept = true;
  #failedAutoPauses = 0;
  #expiryWarned = false;

  #pause: Transition | null = null;
  #pauseReason: SandboxReason = 'user_requested';
  #resume: Transition | null = null;
  #restart: Restart | null = null;
  #ending: { reason: SandboxReason; forget: boolean } | null = null;
  #endingRecorded = false;
  /** What hosts have reported; read at every wait of a resting sandbox. */
  #inbox = new SandboxInbox();
  /** The start or resume that brought up the present processes; 0 until one is recorded. */
  #run = 0;
  /** The number of the last start or resume that was tried. */
  #attempts = 0;
  #starting: CancellationScope | null = null;
  #fullHosts = 0;
  readonly #hostLoss = new HostLoss();

  /** Grows when a timeout changed, so that whoever sleeps until it looks again. */
  #timeoutRevision = 0;
  #timeoutWrites: Promise<void> = Promise.resolve();
  readonly #ports: SandboxPorts;
  readonly #awaitsCredentials: boolean;
  /** For the first start alone, closed for the host. */
  #sealedCredentials: string | null = null;

  constructor({ sandboxId, plan, timeoutSeconds, awaitsCredentials, carried }: SandboxWorkflowInput) {
    this.#awaitsCredentials = awaitsCredentials ?? false;
    this.#id = sandboxId;
    this.#ports = new SandboxPorts(sandboxId);
    this.#plan = plan;
    this.#timeoutSeconds = timeoutSeconds;
    this.#published = carried ? '' : JSON.stringify(sandboxSearchAttributes(plan, this.#status));
    if (carried) this.#takeUp(carried);
  }

  /** Wires every message to its method, before the first wait. */
  listen(): void {
    setHandler(settledUpdate, () => this.#settled());
    setHandler(pauseUpdate, ({ wait }) => this.#onPause(wait), {
      validator: (_: { wait: boolean }) => this.#mustRun(),
    });
    setHandler(resumeUpdate, ({ wait, storage }) => this.#onResume(wait, storage), {
      validator: (_: { wait: boolean }) => this.#mustBePaused(),
    });
    setHandler(restartUpdate, ({ storage }) => this.#onRestart(storage), {
      validator: (_: { storage: StorageChange | null }) => this.#mustRest(),
    });
    setHandler(storageCredentialsUpdate, ({ sealed, wait }) => this.#onCredentials(sealed, wait));
    setHandler(connectUpdate, ({ timeoutSeconds }) => this.#onConnect(timeoutSeconds), {
      validator: (_: { timeoutSeconds: number | null }) => this.#mustLive(),
    });
    setHandler(timeoutUpdate, (change) => this.#onTimeout(change), {
      validator: (change) => this.#mustAcceptTimeout(change),
    });
    setHandler(addPortUpdate, (port) => this.#ports.add(this.#plan.hostId, port), {
      validator: (_: Port) => this.#mustRun(),
    });
    setHandler(removePortUpdate, (port) => this.#ports.remove(this.#plan.hostId, port), {
      validator: (_: number) => this.#mustRun(),
    });
    setHandler(terminateUpdate, ({ forget }) => this.#onTerminate(forget));
    setHandler(endSignal, ({ forget }) => this.#askEnd(forget));
    setHandler(hostReportSignal, (report) => this.#inbox.receive(report));
    setHandler(runtimeExitedSignal, (exit) => this.#inbox.receive({ kind: 'exited', run: null, exit }));
    setHandler(hostRestartedSignal, ({ at }) => this.#inbox.receive({ kind: 'memoryLost', run: null, at }));
    setHandler(hostLostSignal, ({ hostId, run }) => this.#onHostLost(hostId, run ?? null));
    setHandler(projectSwitchedSignal, ({ projectId }) => {
      this.#plan.projectId = projectId;
      this.#publish();
    });
    setHandler(lifeQuery, () => this.#view());
  }

  async live(): Promise<void> {
    this.#publish();
    if (this.#status === 'starting' && !(await this.#start())) return;
    while (!isOver(this.#status)) {
      if (this.#ending) await this.#terminate(this.#ending.reason);
      else if (this.#pause) await this.#freeze(this.#pause);
      else if (this.#restart) await this.#startAnew(this.#restart);
      else if (this.#resume) await this.#thaw(this.#resume);
      else if (this.#status === 'running') await this.#stayRunning();
      else await this.#stayPaused();
      if (this.#shouldHandOver()) await this.#handOver();
    }
    await this.#close();
  }

  // Starting

  /** @returns false when there is no life to live: its row is gone, or over already */
  async #start(): Promise<boolean> {
    if (this.#awaitsCredentials && !(await this.#credentialsHaveCome())) return true;
    while (this.#status === 'starting' && !this.#ending) {
      try {
        const scope = new CancellationScope();
        this.#starting = scope;
        const run = this.#nextAttempt();
        const start = () => startingOn(this.#plan.hostId).startSandbox(this.#id, this.#sealedCredentials, run);
        await this.#recordRunning(await this.#hostLoss.unlessLost(scope, start), run);
      } catch (error) {
        if (isCancellation(error) && this.#ending) return true;
        if (isNoLife(error)) return false;
        if (error instanceof HostLostError || neverStarted(error)) {
          await this.#placeAgain();
          continue;
        }
        const failure = readHostFailure(error, 'start_failed');
        if (failure.reason === 'host_disk_full' && this.#fullHosts < fullHostsTried) await this.#leaveFullHost(failure);
        else await this.#fail(failure);
      } finally {
        this.#starting = null;
      }
    }
    this.#sealedCredentials = null;
    return true;
  }

  /** They are in nobody's store, so a start whose caller is gone has none. */
  async #credentialsHaveCome(): Promise<boolean> {
    const there = () => this.#sealedCredentials !== null || this.#ending !== null;
    if (await condition(there, credentialsPatienceMs)) return true;
    const message = 'The credentials of its object storage did not arrive';
    await this.#fail({ reason: 'object_storage_credentials_required', failure: { message, ...readExit(undefined) } });
    return false;
  }

  /** A host whose disk is full is well otherwise; what it may have begun is removed there before another begins. */
  async #leaveFullHost(failure: HostFailure): Promise<void> {
    this.#fullHosts += 1;
    const remove = () => cleaningOn(this.#plan.hostId).removeSandbox(this.#id);
    try {
      await this.#hostLoss.unlessLost(new CancellationScope(), remove);
    } catch {
      // What could not be removed would meet the next start's; its end cleans up again.
      return await this.#fail(failure);
    }
    await this.#placeAgain(failure);
  }

  /** @param otherwise what it fails with where there is no other host */
  async #placeAgain(otherwise?: HostFailure): Promise<void> {
    try {
      Object.assign(this.#plan, await rows.placeAgain(this.#id));
      this.#hostLoss.forget();
      this.#publish();
    } catch (error) {
      const lost = this.#hostLoss.happened ? hostLostFailure : null;
      await this.#fail(otherwise ?? lost ?? readHostFailure(error, 'no_capacity'));
    }
  }

  // Running

  async #stayRunning(): Promise<void> {
    const revision = this.#timeoutRevision;
    const deadlineMs = this.#timeoutFromMs + this.#timeoutSeconds * 1000 + this.#failedAutoPauses * autoPauseRetryMs;
    const warning = nextWarning(deadlineMs, this.#timeoutSeconds, Date.now());
    const somethingElse = await condition(
      () =>
        this.#ending !== null ||
        this.#pause !== null ||
        this.#restart !== null ||
        this.#inbox.concerns(this.#run) ||
        this.#hostLoss.happened ||
        this.#timeoutRevision !== revision ||
        this.#shouldHandOver(),
      Math.max(1, warning?.inMs ?? deadlineMs - Date.now()),
    );
    if (this.#ending || this.#pause || this.#restart) return;
    if (this.#hostLoss.happened) return this.#fail(hostLostFailure);
    const report = this.#inbox.take(this.#run);
    if (report) return this.#afterReport(report);
    if (somethingElse) return;
    if (warning) await rows.warnOfTimeout(this.#id, deadlineMs, warning.beforeSeconds);
    else if (this.#plan.autoPause) this.#askPause('auto_pause', false);
    else this.#ending = { reason: 'timeout', forget: false };
  }

  /**
   * Every time of a life is the workflow's own, never a host's: deadlines and totals then cannot disagree, whatever the
   * clocks of other machines say.
   */
  async #recordRunning(place: HostedPlace, run: number, reason: SandboxReason = 'user_requested'): Promise<void> {
    const atMs = Date.now();
    await rows.recordRunning(this.#id, place, atMs);
    this.#run = run;
    this.#timeoutFromMs = atMs;
    this.#failedAutoPauses = 0;
    this.#setStatus('running', reason);
  }

  /** The number of a start or resume that begins now; the host names it in its reports about the processes. */
  #nextAttempt(): number {
    this.#attempts += 1;
    return this.#attempts;
  }

  /**
   * A report of a host's loss may arrive after the host came back and the sandbox runs there again, so one that names
   * an earlier run is dropped. A paused sandbox needs only its disk, which is there when the host is back.
   */
  #onHostLost(hostId: string, run: number | null): void {
    if (hostId !== this.#plan.hostId || this.#status === 'paused') return;
    const beginning = this.#status === 'starting' || this.#status === 'resuming';
    if (run !== null && run < (beginning ? this.#attempts : this.#run)) return;
    this.#hostLoss.tell();
  }

  async #afterReport(report: HostReport): Promise<void> {
    if (report.kind === 'diskLost') return this.#fail(diskLostFailure);
    if (report.kind === 'exited') return this.#afterExit(report.exit);
    if (report.kind === 'memoryLost') return this.#afterHostRestart(Date.parse(report.at));
    if (report.ended) return this.#afterDiskPressure();
    this.#askPause('host_disk_pressure', false);
  }

  /** Its processes ended by themselves. */
  async #afterExit(exit: RuntimeExit): Promise<void> {
    const message = exit.outOfMemory
      ? 'The sandbox ran out of memory'
      : 'The processes of the sandbox ended by themselves';
    await this.#fail({ reason: 'runtime_exited', failure: { message, ...readExit(exit) } });
  }

  /** Its host restarted under it: the disk is there, so it is paused and can be resumed. */
  async #afterHostRestart(atMs: number): Promise<void> {
    await rows.recordPaused(this.#id, 'host_restarted', atMs, false);
    this.#pauseFrom(atMs, 'host_restarted', false);
  }

  /** The host ended its processes before they took the last of its disk. */
  async #afterDiskPressure(): Promise<void> {
    const atMs = Date.now();
    await rows.recordPaused(this.#id, 'host_disk_pressure', atMs, false);
    this.#pauseFrom(atMs, 'host_disk_pressure', false);
    await rows.warnOfDiskPressure(this.#id, atMs);
  }

  /** The frozen processes of a paused one are gone; the disk is what a paused sandbox promises, and it is there. */
  async #loseMemory(): Promise<void> {
    this.#memoryKept = false;
    if (patched('memory-lost-is-recorded')) await rows.recordMemoryLost(this.#id);
  }

  // Pausing and paused

  #askPause(reason: SandboxReason, hurried: boolean): Transition {
    this.#pauseReason = reason;
    this.#setStatus('pausing', reason);
    this.#pause = newTransition(hurried);
    return this.#pause;
  }

  async #freeze(pause: Transition): Promise<void> {
    const reason = this.#pauseReason;
    const askedMs = Date.now();
    if (pause.hurried) {
      await rows.recordPausing(this.#id, reason, askedMs);
      pause.recorded = true;
    }
    try {
      const memoryKept = await this.#bringToStand(reason, askedMs);
      const atMs = Date.now();
      await rows.recordPaused(this.#id, reason, atMs, memoryKept);
      this.#pauseFrom(atMs, reason, memoryKept);
      if (reason === 'host_disk_pressure') await rows.warnOfDiskPressure(this.#id, atMs);
    } catch (error) {
      if (error instanceof HostLostError) {
        pause.refusal = refused('sandbox_ended', hostLostFailure.failure.message);
        return await this.#fail(hostLostFailure);
      }
      await rows.recordPauseFailed(this.#id);
      if (reason === 'auto_pause') this.#failedAutoPauses += 1;
      this.#setStatus('running', 'pause_failed');
      pause.refusal = asRefusal(error, 'pause_failed');
    } finally {
      pause.done = true;
      this.#pause = null;
    }
  }

  /** @returns whether its processes are still there, frozen */
  async #bringToStand(reason: SandboxReason, askedMs: number): Promise<boolean> {
    const freeze = reason !== 'auto_pause' || this.#failedAutoPauses < autoPauseTries;
    const { hostId } = this.#plan;
    await this.#hostLoss.unlessLost(new CancellationScope(), () =>
      freeze ? pausingOn(hostId).pauseSandbox(this.#id, reason, askedMs) : cleaningOn(hostId).stopSandbox(this.#id),
    );
    return freeze;
  }

  #pauseFrom(atMs: number, reason: SandboxReason, memoryKept: boolean): void {
    this.#pausedAtMs = atMs;
    this.#memoryKept = memoryKept;
    this.#expiryWarned = false;
    this.#setStatus('paused', reason);
  }

  async #stayPaused(): Promise<void> {
    const expires = persistenceExpiresAt(new Date(this.#pausedAtMs), this.#plan.persistenceDays)?.getTime() ?? null;
    const warnAt =
      expires === null || this.#expiryWarned ? null : expires - expiryWarningMs(this.#plan.persistenceDays!);
    const wake = warnAt ?? expires;
    const asked = () =>
      this.#ending !== null ||
      this.#resume !== null ||
      this.#restart !== null ||
      this.#inbox.concerns(this.#run) ||
      this.#shouldHandOver();
    const somethingElse =
      wake === null ? await condition(asked).then(() => true) : await condition(asked, Math.max(1, wake - Date.now()));
    if (this.#ending || this.#resume || this.#restart) return;
    const report = this.#inbox.take(this.#run);
    if (report?.kind === 'diskLost') return this.#fail(diskLostFailure);
    // Frozen by the host is what a paused sandbox is anyway.
    if (report && (report.kind !== 'diskPressure' || report.ended)) return this.#loseMemory();
    if (somethingElse || expires === null) return;
    if (warnAt !== null) {
      await rows.warnOfExpiry(this.#id, expires);
      this.#expiryWarned = true;
    } else this.#ending = { reason: 'persistence_expired', forget: false };
  }

  // Resuming

  #askResume(hurried: boolean, storage?: StorageChange): Transition {
    this.#setStatus('resuming', 'user_requested');
    this.#resume = { ...newTransition(hurried), ...(storage && { storage }) };
    return this.#resume;
  }

  async #thaw(resume: Transition): Promise<void> {
    const run = this.#nextAttempt();
    try {
      if (resume.hurried) {
        await rows.recordResuming(this.#id, run);
        resume.recorded = true;
      }
      const scope = new CancellationScope();
      this.#starting = scope;
      this.#dropUnnumberedReports();
      const resumeThere = () => startingOn(this.#plan.hostId).resumeSandbox(this.#id, resume.storage ?? null, run);
      await this.#recordRunning(await this.#hostLoss.unlessLost(scope, resumeThere), run);
    } catch (error) {
      const { reason } = await rows.recordResumeFailed(this.#id, this.#memoryKept);
      this.#setStatus('paused', reason ?? 'resume_failed');
      this.#hostLoss.forget();
      resume.refusal = refusalOfStart(error, 'resume_failed');
    } finally {
      this.#starting = null;
      resume.done = true;
      this.#resume = null;
    }
  }

  // Restarting

  /** Ends the processes, whatever they do, and starts the sandbox on its disk. */
  async #startAnew(restart: Restart): Promise<void> {
    const run = this.#nextAttempt();
    try {
      const scope = new CancellationScope();
      this.#starting = scope;
      this.#dropUnnumberedReports();
      const restartThere = () => startingOn(this.#plan.hostId).restartSandbox(this.#id, restart.storage ?? null, run);
      await this.#recordRunning(await this.#hostLoss.unlessLost(scope, restartThere), run, 'restarted');
    } catch (error) {
      await this.#afterFailedRestart(restart);
      restart.refusal = refusalOfStart(error, 'restart_failed');
    } finally {
      this.#starting = null;
      restart.done = true;
      this.#restart = null;
    }
  }

  /** A restart that was refused has ended nothing; one that failed has ended the processes, and the disk is there. */
  async #afterFailedRestart({ from }: Restart): Promise<void> {
    const atMs = Date.now();
    const { status, reason } = await rows.recordRestartFailed(this.#id, from);
    if (status === 'running') this.#setStatus('running', reason ?? 'user_requested');
    else if (from === 'paused' && reason !== 'restart_failed') this.#setStatus('paused', reason ?? 'restart_failed');
    else this.#pauseFrom(from === 'paused' ? this.#pausedAtMs : atMs, 'restart_failed', false);
    // What still runs has lost its host; a paused one needs none.
    if (this.#status === 'paused') this.#hostLoss.forget();
  }

  /** Without a number, a report that came before the resume speaks of the processes that it replaces. */
  #dropUnnumberedReports(): void {
    this.#inbox.dropUnnumbered('exited');
    if (!this.#inbox.hasUnnumbered('memoryLost')) return;
    if (patched('memory-lost-before-a-resume-is-dropped')) this.#inbox.dropUnnumbered('memoryLost');
  }

  // Ending

  async #terminate(reason: SandboxReason): Promise<void> {
    await rows.recordTerminating(this.#id, reason);
    this.#setStatus('terminating', reason);
    this.#endingRecorded = true;
    const cleaned = await this.#clean();
    await rows.recordTerminated(this.#id, outcomeOf(reason, this.#ending?.forget ?? false), Date.now(), cleaned);
    this.#setStatus('terminated', reason);
  }

  async #fail({ reason, failure }: HostFailure): Promise<void> {
    await rows.recordFailed(this.#id, reason, failure, Date.now());
    this.#setStatus('failed', reason);
    if (await this.#clean()) await rows.recordCleaned(this.#id);
  }

  /** Whether the host has nothing of it any more. A host that is away cleans up when it comes back. */
  async #clean(): Promise<boolean> {
    return CancellationScope.nonCancellable(async () => {
      const host = cleaningOn(this.#plan.hostId);
      const onHost = (work: () => Promise<void>) => this.#hostLoss.unlessLost(new CancellationScope(), work);
      try {
        await onHost(() => host.stopSandbox(this.#id));
        await rows.recordStopped(this.#id, Date.now());
        await onHost(() => host.removeSandbox(this.#id));
        return true;
      } catch (error) {
        if (error instanceof ActivityFailure || error instanceof HostLostError) return false;
        throw error;
      }
    });
  }

  /** Serves whoever still waits, and a wish to end or forget that came while the life was ending. */
  async #close(): Promise<void> {
    let forgotten = false;
    for (;;) {
      if (this.#ending && this.#status === 'failed') await this.#terminate(this.#ending.reason);
      this.#endingRecorded = true;
      if (this.#ending?.forget && !forgotten) {
        await rows.recordForgotten(this.#id, Date.now());
        forgotten = true;
      }
      await condition(allHandlersFinished);
      if (!this.#ending || (this.#status === 'terminated' && (forgotten || !this.#ending.forget))) return;
    }
  }

  // Messages

  async #onCredentials(sealed: string, wait: boolean): Promise<SandboxStanding> {
    if (this.#status === 'starting') this.#sealedCredentials = sealed;
    return wait ? this.#settled() : this.#standing();
  }

  async #settled(): Promise<SandboxStanding> {
    await condition(() => this.#status !== 'starting');
    return this.#standing();
  }

  async #onPause(wait: boolean): Promise<SandboxStanding> {
    return this.#follow(this.#askPause('user_requested', !wait), wait);
  }

  async #onResume(wait: boolean, storage: StorageChange | undefined): Promise<SandboxStanding> {
    return this.#follow(this.#askResume(!wait, storage), wait);
  }

  async #onRestart(storage: StorageChange | null): Promise<SandboxStanding> {
    const from = this.#status === 'paused' ? 'paused' : 'running';
    this.#setStatus('resuming', 'restarted');
    this.#restart = { ...newTransition(false), from, ...(storage && { storage }) };
    return this.#follow(this.#restart, true);
  }

  async #follow(transition: Transition, wait: boolean): Promise<SandboxStanding> {
    await condition(() => transition.done || (transition.recorded && !wait) || this.#endingRecorded);
    if (transition.refusal) throw transition.refusal;
    return this.#standing();
  }

  async #onConnect(timeoutSeconds: number | null): Promise<SandboxStanding> {
    let asked: Transition | null = null;
    for (;;) {
      if (this.#ending || isOver(this.#status)) throw refused('sandbox_ended', 'The sandbox has ended');
      if (asked?.refusal) throw asked.refusal;
      if (this.#status === 'running') break;
      if (this.#status === 'paused') asked = this.#askResume(false);
      const before = this.#status;
      await condition(() => this.#status !== before || this.#ending !== null);
    }
    if (timeoutSeconds !== null) await this.#writeTimeout(timeoutSeconds, Date.now());
    return this.#standing();
  }

  async #onTimeout(change: TimeoutChange): Promise<TimeoutStanding> {
    await this.#writeTimeout(change.timeoutSeconds, null);
    const running = this.#inRunningPhase();
    return {
      timeoutSeconds: this.#timeoutSeconds,
      timeoutAtMs: running ? this.#timeoutFromMs + this.#timeoutSeconds * 1000 : null,
      appliesTo: running ? 'current_phase' : 'next_phase',
    };
  }

  /** One write after the other, so that the row ends with the value that was asked last. */
  #writeTimeout(timeoutSeconds: number, fromMs: number | null): Promise<void> {
    this.#timeoutSeconds = timeoutSeconds;
    if (fromMs !== null) this.#timeoutFromMs = fromMs;
    this.#failedAutoPauses = 0;
    this.#timeoutRevision += 1;
    this.#timeoutWrites = this.#timeoutWrites.then(() => rows.recordTimeout(this.#id, timeoutSeconds, fromMs));
    return this.#timeoutWrites;
  }

  #askEnd(forget: boolean): void {
    this.#ending ??= { reason: 'user_requested', forget };
    this.#ending.forget ||= forget;
    this.#starting?.cancel();
  }

  async #onTerminate(forget: boolean): Promise<SandboxStanding> {
    this.#askEnd(forget);
    await condition(() => this.#endingRecorded);
    return this.#standing();
  }

  // Validators: they only look

  #mustLive(): void {
    if (this.#ending || isOver(this.#status)) throw refused('sandbox_ended', 'The sandbox has ended');
  }

  /** As the row will answer once the workflow has closed. */
  #mustNotBeOver(): void {
    if (isOver(this.#status)) throw refused('sandbox_ended', `The sandbox is ${this.#status}`);
  }

  #mustRun(): void {
    this.#mustNotBeOver();
    if (this.#ending || this.#status !== 'running') {
      throw refused('sandbox_not_running', `The sandbox is ${this.#spoken()}, not running`);
    }
  }

  #mustBePaused(): void {
    this.#mustNotBeOver();
    if (this.#ending || this.#status !== 'paused') {
      throw refused('sandbox_not_paused', `The sandbox is ${this.#spoken()}, not paused`);
    }
  }

  #mustRest(): void {
    this.#mustLive();
    if (this.#status !== 'running' && this.#status !== 'paused') {
      throw refused('sandbox_busy', `The sandbox is ${this.#spoken()}, neither running nor paused`);
    }
  }

  #mustAcceptTimeout({ timeoutSeconds, mustRaise }: TimeoutChange): void {
    this.#mustLive();
    if (mustRaise && timeoutSeconds <= this.#timeoutSeconds) {
      throw refused(
        'timeout_not_raised',
        `The timeout must be longer than the present ${this.#timeoutSeconds} seconds`,
      );
    }
    if (this.#inRunningPhase() && this.#timeoutFromMs + timeoutSeconds * 1000 <= Date.now()) {
      throw refused(
        'timeout_already_passed',
        'The sandbox has run for longer than that; terminate or pause it instead',
      );
    }
  }

  // Standing

  #inRunningPhase(): boolean {
    return this.#status === 'running' || this.#status === 'pausing';
  }

  #spoken(): string {
    return this.#ending && !isOver(this.#status) ? 'terminating' : this.#status;
  }

  #standing(): SandboxStanding {
    return { status: this.#status, reason: this.#reason };
  }

  #setStatus(status: SandboxStatus, reason: SandboxReason): void {
    this.#status = status;
    this.#reason = reason;
    this.#publish();
  }

  #publish(): void {
    const attributes = sandboxSearchAttributes(this.#plan, this.#status);
    const told = JSON.stringify(attributes);
    if (told === this.#published) return;
    this.#published = told;
    upsertSearchAttributes(attributes);
  }

  #view(): SandboxLifeView {
    const paused = this.#status === 'paused';
    const deadline = this.#inRunningPhase()
      ? new Date(this.#timeoutFromMs + this.#timeoutSeconds * 1000)
      : paused
        ? persistenceExpiresAt(new Date(this.#pausedAtMs), this.#plan.persistenceDays)
        : null;
    return {
      status: this.#status,
      reason: this.#reason,
      hostId: this.#plan.hostId,
      nextDeadline: deadline?.toISOString() ?? null,
      nextAction: deadline === null ? null : paused ? 'expire' : this.#plan.autoPause ? 'auto_pause' : 'timeout',
    };
  }

  // The next run

  #shouldHandOver(): boolean {
    const resting = this.#status === 'running' || this.#status === 'paused';
    // The server suggests it for a long history and for many updates alike; servers differ in when.
    const { continueAsNewSuggested, historyLength } = workflowInfo();
    return (
      (continueAsNewSuggested || historyLength > longestHistory) &&
      resting &&
      ![this.#ending, this.#pause, this.#resume, this.#restart].some(Boolean) &&
      !this.#inbox.hasUnnumbered('exited') &&
      !this.#hostLoss.happened
    );
  }

  async #handOver(): Promise<void> {
    await condition(() => allHandlersFinished() || !this.#shouldHandOver());
    if (!this.#shouldHandOver()) return;
    await continueAsNew<typeof sandbox>({
      sandboxId: this.#id,
      plan: this.#plan,
      timeoutSeconds: this.#timeoutSeconds,
      carried: {
        status: this.#status === 'paused' ? 'paused' : 'running',
        reason: this.#reason,
        timeoutFromMs: this.#timeoutFromMs,
        pausedAtMs: this.#pausedAtMs,
        memoryKept: this.#memoryKept,
        run: this.#run,
        attempts: this.#attempts,
        reports: this.#inbox.carry(),
      },
    });
  }

  #takeUp(carried: NonNullable<SandboxWorkflowInput['carried']>): void {
    this.#status = carried.status;
    this.#reason = carried.reason;
    this.#timeoutFromMs = carried.timeoutFromMs;
    this.#pausedAtMs = carried.pausedAtMs;
    this.#memoryKept = carried.memoryKept;
    this.#run = carried.run ?? 0;
    this.#attempts = carried.attempts ?? 0;
    this.#inbox = new SandboxInbox(carried.reports);
  }
}

const newTransition = (hurried: boolean): Transition => ({ hurried, recorded: false, done: false, refusal: null });

/** What the caller of a resume or a restart is answered when it failed with `error`. */
function refusalOfStart(error: unknown, otherwise: 'resume_failed' | 'restart_failed'): ApplicationFailure {
  if (isCancellation(error)) return refused('sandbox_ended', 'The sandbox is being terminated');
  if (error instanceof HostLostError || neverStarted(error)) return hostUnavailable();
  return asRefusal(error, otherwise);
}
