/** Entry of a server process; the only file that reads the environment. */
import cluster from 'node:cluster'
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import process from 'node:process'
import { AlertHub } from './observability/alerts/alert-hub.js'
import { openWebhook, registerDeliveryMetrics } from './observability/alerts/webhook.js'
import { bannerOf } from './startup/banner.js'
import { wallClock } from './lib/wall-clock.js'
import type { Config } from './config/config.js'
import { parseConfig } from './config/parse-config.js'
import { parseRatelimitEnvironment } from './config/ratelimit/ratelimit-environment.js'
import { type EphemeralSecrets, createEphemeralSecrets } from './startup/stored-secrets.js'
import { isUnconfigured } from './startup/example.js'
import { disablePretenuring } from './startup/garbage-collection.js'
import { createLogger, type Log } from './observability/log/logger.js'
import { messageOf } from './lib/message-of.js'
import { createRegistry } from './observability/metrics/registry.js'
import { registerRestarts } from './observability/metrics/restart-metrics.js'
import { preflight, type RulesFileContent } from './startup/preflight.js'
import { openRuleStore } from './rules/store/open-rule-store.js'
import type { RuleStore } from './rules/store/rule-store.js'
import { type RunningServer, serve } from './serve.js'
import { type RunningRatelimit, serveRatelimit } from './serve-ratelimit.js'
import { StopSignals } from './lib/stop-signals.js'
import { createUncaughtErrors } from './lib/uncaught-errors.js'
import { findNodeWarning } from './startup/node-version.js'
import { watchNpmShell } from './startup/npm-shell.js'
import { makeRingDirectory, removeRingDirectory } from './workers/ring-directory.js'
import {
  HAD_RULES_VARIABLE,
  PLACE_VARIABLE,
  RING_DIRECTORY_VARIABLE,
  runWorkers,
  SECRETS_VARIABLE,
  workerSide,
} from './workers.js'

export interface RunOptions {
  readonly config?: string
  readonly json?: boolean
  readonly check?: boolean
  /** Runs in place of envoyproxy/ratelimit, by its variables and on its ports. */
  readonly asEnvoyRatelimit?: boolean
  /** Receives the output of `check`. @default standard output */
  readonly write?: (text: string) => void
}

const STOPPED = 0
const FAILED = 1
const MISUSE = 2
/**
 * A terminal signals the whole process group and npm forwards its own signal. Signals within this
 * time count as one.
 */
const SIGNAL_ECHO_MS = 500

/** What npm calls `npx` and `npm start`. Other scripts may leave a server behind on purpose. */
const FOLLOWED_EVENTS: readonly string[] = ['npx', 'start']

/** Read at once: npm's shell may end while the configuration is read. */
const SHELL_ID = process.ppid

/** Serves until it receives a signal; resolves to the exit code. */
export async function runServer(options: RunOptions): Promise<number> {
  if (options.asEnvoyRatelimit === true) return runRatelimit(options)
  const secrets = takeSecrets()
  const read = readConfig(options)
  if (read === undefined) return MISUSE
  const { adminToken, keySecret } = secrets
  const config =
    keySecret === undefined ? read : { ...read, keySecret: Buffer.from(keySecret, 'hex') }
  const log = createLogger({ level: config.log.level })
  const worker = workerSide({
    place: Number(process.env[PLACE_VARIABLE] ?? 0),
    hadRules: process.env[HAD_RULES_VARIABLE] === 'true',
    ringDirectory: process.env[RING_DIRECTORY_VARIABLE],
  })
  if (config.workers > 1 && worker === undefined && options.check !== true) {
    return runAsWorkers(config, log)
  }
  const { problems, rules } = await preflight(config, wallClock)
  for (const problem of problems) printError(problem)
  if (problems.length > 0) return MISUSE
  if (options.check === true) {
    // A server that starts logs these warnings.
    for (const { message } of rules?.parsed.warnings ?? []) printError(message)
    if (rules?.parsed.rules?.rules.length === 0 && !config.allowNoRules)
      printError(noRulesNote(rules))
    const { write = (text: string) => void process.stdout.write(text) } = options
    write('Configuration and rules are valid.\n')
    return STOPPED
  }
  disablePretenuring()
  let server: RunningServer
  const signals = quitOnSignals(log)
  try {
    server = await serve(config, { log, worker, rules, adminToken })
  } catch (error) {
    signals.close()
    await log.flush()
    printError(`Could not start: ${messageOf(error)}`)
    return FAILED
  }
  const text = announcement(server, { config, options })
  // Sent even if empty: it reports to the primary process that this worker is ready.
  if (worker !== undefined) worker.announce(text)
  else if (text !== '') process.stdout.write(text)
  const { gateway, api, grpc, admin } = server
  logStart({ gateway, api, grpc, admin }, log)
  keepServingAfterBugs(log)
  return waitForShutdown(server, { log, signals })
}

/** Runs in place of envoyproxy/ratelimit; resolves to the exit code. */
async function runRatelimit(options: RunOptions): Promise<number> {
  if (options.config !== undefined) {
    printError('--config: no effect with --as-envoy-ratelimit, which reads variables alone')
    return MISUSE
  }
  const { config: ratelimit, errors, ignored } = parseRatelimitEnvironment(process.env)
  for (const message of errors) printError(message)
  if (ratelimit === undefined) return MISUSE
  const { problems } = await preflight(ratelimit.config, wallClock)
  for (const problem of problems) printError(problem)
  if (problems.length > 0) return MISUSE
  const { write = (text: string) => void process.stdout.write(text) } = options
  if (options.check === true) {
    for (const { variables, why } of ignored)
      printError(`${variables.join(', ')}: no effect: ${why}`)
    write('Configuration is valid.\n')
    return STOPPED
  }
  const log = createLogger({ level: ratelimit.config.log.level })
  for (const { variables, why } of ignored) log.warn({ variables, why }, 'variables without effect')
  disablePretenuring()
  const signals = quitOnSignals(log)
  let server: RunningRatelimit
  try {
    server = await serveRatelimit(ratelimit, { log })
  } catch (error) {
    signals.close()
    await log.flush()
    printError(`Could not start: ${messageOf(error)}`)
    return FAILED
  }
  if (options.json === true) write(`${JSON.stringify(server.addresses)}\n`)
  logStart(server.addresses, log)
  keepServingAfterBugs(log)
  return waitForShutdown(server, { log, signals })
}

/** Runs the primary process, which opens the rule store once for all workers. */
async function runAsWorkers(config: Config, log: Log): Promise<number> {
  let rules: RuleStore | undefined
  let ring: string | undefined
  const signals = quitOnSignals(log)
  try {
    rules = await openRuleStore(config, {
      log,
      clock: wallClock,
      isExample: isUnconfigured(config),
    })
    // Last, because nothing removes it where the start fails.
    ring = config.redis === undefined ? makeRingDirectory(config.dataDir) : undefined
  } catch (error) {
    signals.close()
    await rules?.close()
    await log.flush()
    printError(`Could not start: ${messageOf(error)}`)
    return FAILED
  }
  keepServingAfterBugs(log)
  const webhook = openWebhook(config, log)
  const alerts = webhook && new AlertHub(webhook, wallClock)
  const registry = createRegistry()
  registerDeliveryMetrics(registry, () => webhook?.deliveries())
  const countRestart = registerRestarts(registry)
  const code = await runWorkers({
    count: config.workers,
    log,
    signals,
    withinMs: config.shutdown.withinMs,
    onListening: (text) => void process.stdout.write(text),
    rules,
    alerts,
    environment: {
      [SECRETS_VARIABLE]: JSON.stringify(createEphemeralSecrets(config, log)),
      ...(ring !== undefined && { [RING_DIRECTORY_VARIABLE]: ring }),
    },
    ownMetrics: () => registry.mergeableText(),
    onRestart: countRestart,
  })
  await alerts?.close()
  await rules?.close()
  if (ring !== undefined) removeRingDirectory(ring)
  return code
}

/** Removes the secrets that the primary process passed to a worker from the environment. */
function takeSecrets(): EphemeralSecrets {
  const text = process.env[SECRETS_VARIABLE]
  delete process.env[SECRETS_VARIABLE]
  if (text === undefined || !cluster.isWorker) return {}
  return JSON.parse(text) as EphemeralSecrets
}

/**
 * Exits on a signal during startup, which may wait for Redis or a lock. Without a handler the first
 * process of a container ignores signals. No call is in flight yet, so nothing is drained.
 */
function quitOnSignals(log: Log): StopSignals {
  const signals = new StopSignals((signal) => {
    log.info({ signal }, 'received signal during startup, exiting')
    log.flushNow()
    process.exit(STOPPED)
  })
  endWithNpm()
  return signals
}

/** Takes the end of npm's shell as the SIGTERM that did not get through it. */
function endWithNpm(): void {
  // Workers inherit the variable, and end with the primary process.
  if (!FOLLOWED_EVENTS.includes(process.env['npm_lifecycle_event'] ?? '') || cluster.isWorker)
    return
  const stopWatching = watchNpmShell({
    shellId: SHELL_ID,
    parentId: () => process.ppid,
    onEnd: () => process.kill(process.pid, 'SIGTERM'),
  })
  // A signal to the whole process group ends the shell too, which must not count as a second one.
  process.once('SIGTERM', stopWatching).once('SIGINT', stopWatching)
}

function readConfig(options: RunOptions): Config | undefined {
  const named = options.config ?? (process.env['SLUICE_CONFIG'] || undefined)
  const file = named ?? (existsSync('sluice.yaml') ? 'sluice.yaml' : undefined)
  let text: string | undefined
  try {
    text = file === undefined ? undefined : readFileSync(file, 'utf8')
  } catch (error) {
    printError(`${file}: ${messageOf(error)}`)
    return undefined
  }
  const {
    [PLACE_VARIABLE]: _place,
    [HAD_RULES_VARIABLE]: _hadRules,
    [RING_DIRECTORY_VARIABLE]: _ring,
    ...environment
  } = process.env
  const { config, errors, warnings } = parseConfig(text, {
    file: file === undefined ? undefined : resolve(file),
    env: environment,
    readFile: (path) => readFileSync(path, 'utf8'),
  })
  for (const { message } of [...errors, ...warnings]) printError(message)
  return config
}

function noRulesNote({ file }: RulesFileContent): string {
  const ready = '/readyz will answer 503 "no rules" until there is one'
  return `${file}: rules: found none. ${ready}, unless allowNoRules is true`
}

interface AnnouncementOptions {
  readonly config: Config
  readonly options: RunOptions
}

/** The text to print once the server listens; empty if the output is not a terminal. */
function announcement(server: RunningServer, { config, options }: AnnouncementOptions): string {
  const { gateway, api, grpc, admin } = server
  const isTerminal = process.stdout.isTTY
  if (options.json === true) return `${JSON.stringify({ gateway, api, grpc, admin })}\n`
  if (!isTerminal && config.file !== undefined) return ''
  return `${bannerOf(server, { isTerminal })}\n`
}

function logStart(addresses: Readonly<Record<string, string | undefined>>, log: Log): void {
  log.info({ ...addresses, node: process.version }, 'listening')
  const warning = findNodeWarning(process.versions.node)
  if (warning !== undefined) log.warn({ node: process.version }, warning)
}

/** Keeps the process running after an uncaught error, since it would end the calls in flight. */
function keepServingAfterBugs(log: Log): void {
  const uncaughtErrors = createUncaughtErrors(log, wallClock)
  const onUncaught = (error: unknown) => {
    if (!uncaughtErrors.shouldExit(error)) return
    log.flushNow()
    process.exit(FAILED)
  }
  process.on('uncaughtException', onUncaught)
  process.on('unhandledRejection', onUncaught)
}

interface ShutdownDeps {
  readonly log: Log
  readonly signals: StopSignals
}

/** SIGTERM drains after a delay for load balancers, SIGINT (a terminal) without one. */
function waitForShutdown(
  server: Pick<RunningServer, 'stop'>,
  { log, signals }: ShutdownDeps,
): Promise<number> {
  return new Promise((resolveCode) => {
    let stoppingSince: number | undefined
    signals.handleBy((signal) => {
      const now = wallClock.now()
      if (stoppingSince !== undefined && now - stoppingSince < SIGNAL_ECHO_MS) return
      if (stoppingSince !== undefined) {
        log.flushNow()
        process.exit(FAILED)
      }
      stoppingSince = now
      log.info({ signal }, 'stopping')
      void server.stop({ atOnce: signal === 'SIGINT' }).then(async ({ cut }) => {
        log.info({ cut }, 'stopped')
        await log.flush()
        resolveCode(STOPPED)
      })
    })
  })
}

function printError(message: string): void {
  process.stderr.write(`${message}\n`)
}
