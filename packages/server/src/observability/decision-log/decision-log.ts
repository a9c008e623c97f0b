/**
 * Writes decisions to a file for replay: all decisions of a sample of callers, chosen by hash.
 *
 * A decision never waits for the disk. Lines are buffered in chunks that are written in the
 * background; lines that do not fit or cannot be written are dropped and counted.
 */
import { amountOf, type Call, type CallerVisit, type Decision, type Hash64 } from '@sluice/core'
import type { WallClock } from '../../lib/wall-clock.js'
import type { DecisionLogConfig } from '../../config/config.js'
import type { Log } from '../log/logger.js'
import type { Registry } from '../metrics/registry.js'
import {
  type FileSystem,
  isDiskState,
  realFileSystem,
  reasonOf,
} from '../../rules/store/file/fs.js'
import { type FileAction, LineChunk } from './line-chunk.js'
import { headLine, OUTCOME_LETTERS, SOURCE_LETTERS } from './decision-log-format.js'
import { LogFile } from './log-file.js'

export interface DecisionLog {
  onDecision(decision: Decision, call: Call): void
  /** Resolves when everything is written or has failed. Never rejects. */
  flush(): Promise<void>
  /** Flushes within a second; later decisions are not written. */
  close(): Promise<void>
}

export interface DecisionLogOptions {
  readonly config: DecisionLogConfig
  /** Appended to the file name, so that each of several processes has its own file. */
  readonly suffix?: string | undefined
  readonly clock: WallClock
  readonly log: Log
  readonly registry: Registry
  /** @default the file system of the operating system */
  readonly disk?: FileSystem | undefined
}

const FLUSH_EVERY_MS = 1000
const CLOSE_MS_MAX = 1000
const LOG_EVERY_MS = 60_000
/** Chunks at most: 4 MB of buffered lines. */
const CHUNKS_MAX = 64
/** Rule names in one section; a rule set has at most half as many. */
const NAMES_MAX = 20_000
/** The length of a head, a name definition without the rule id, and a line. */
const ROOM_BYTES = 192
/** A clock set back further begins a new section; smaller steps count as the same time. */
const STEP_BACK_MS = 1000

/** Rejects with the file name and the reason if the file cannot be opened. */
export async function openDecisionLog(options: DecisionLogOptions): Promise<DecisionLog> {
  const log = new FileDecisionLog(options)
  await log.open()
  return log
}

class FileDecisionLog implements DecisionLog {
  readonly #options: DecisionLogOptions
  readonly #path: string
  readonly #file: LogFile
  /** Callers are written if the high half of their evenly distributed hash is below this. */
  readonly #sampledBelow: number
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  /** The chunk being filled; undefined before the next line. */
  #chunk: LineChunk | undefined
  readonly #free: LineChunk[] = []
  #made = 0
  readonly #waiting: LineChunk[] = []
  #writing: Promise<void> | undefined
  /** Inspecting the file and writing to it exclude each other. */
  #inspecting: Promise<unknown> | undefined
  /** The file action of the next chunk. */
  #fileAction: FileAction = 'nothing'

  /** Rule numbers since the last head. */
  readonly #names = new Map<string, number>()
  #hasHead = false
  #lastMs = 0
  /** The size of the file once all sealed chunks are written. */
  #fileBytes = 0

  /** The decision that is being written. */
  #call: Call | undefined
  #source = 0
  #nowMs = -1

  #lines = 0
  #dropped = 0
  #nextLogMs = Number.NEGATIVE_INFINITY

  constructor(options: DecisionLogOptions) {
    const { config, suffix = '', disk = realFileSystem, registry } = options
    const { file, maxBytes, keep, sample } = config
    this.#options = options
    this.#path = `${file}${suffix}`
    const onProblem = (error: unknown) => this.logProblem(error)
    this.#file = new LogFile({ path: this.#path, disk, maxBytes, keep, onProblem })
    this.#sampledBelow = Math.round(sample * 2 ** 32) - 2 ** 31
    registry.total(
      'sluice_decision_log_lines_total',
      'Lines written to the decision log.',
      () => this.#lines,
    )
    registry.total(
      'sluice_decision_log_dropped_total',
      'Lines not written to the decision log because the buffer was full or the disk failed.',
      () => this.#dropped,
    )
  }

  async open(): Promise<void> {
    try {
      await this.#file.open()
    } catch (error) {
      // A full or read-only disk does not prevent the start: each flush tries to open the file.
      if (isDiskState(error)) this.logProblem(error)
      else throw this.unusableError(error)
    }
    this.#fileBytes = this.#file.size
    this.#file.finishRotation()
    this.#timer = setInterval(() => void this.flush(), FLUSH_EVERY_MS).unref()
  }

  private unusableError(error: unknown): Error {
    const found = reasonOf(error)
    const accepted = 'a file that this process may write to, in a folder that is there'
    return new Error(`decisionLog.file: ${this.#path}: found: ${found}; accepted: ${accepted}`, {
      cause: error,
    })
  }

  onDecision(decision: Decision, call: Call): void {
    this.#call = call
    this.#source = SOURCE_LETTERS[decision.source].charCodeAt(0)
    this.#nowMs = -1
    decision.eachCaller(this.#visit)
    this.#call = undefined
  }

  flush(): Promise<void> {
    return this.flushAll().catch((error: unknown) => this.logProblem(error))
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    clearInterval(this.#timer)
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, CLOSE_MS_MAX)
    })
    const closed = this.flush()
      .then(() => this.#file.close())
      .catch((error: unknown) => this.logProblem(error))
    await Promise.race([closed, late])
    clearTimeout(timer)
  }

  /** Created once, so that no decision allocates a closure. */
  readonly #visit: CallerVisit = (rule, _by, caller, outcome, _left, cost) => {
    if (caller.hi >= this.#sampledBelow) return
    const call = this.#call
    if (call === undefined) return
    const callCost = call.cost ?? 1
    const amount = cost === 1 ? callCost : amountOf(cost, call, callCost)
    // Always a number here: a rule that cannot read the cost makes no decision.
    const counted = typeof amount === 'number' ? amount : 0
    this.append(rule, caller, counted, OUTCOME_LETTERS[outcome].charCodeAt(0))
  }

  private append(rule: string, caller: Hash64, amount: number, outcome: number): void {
    if (this.#nowMs < 0) this.#nowMs = this.#options.clock.now()
    const chunk = this.chunkFor(ROOM_BYTES + rule.length)
    if (chunk === undefined) {
      this.#dropped++
      return
    }
    const atMs = this.#nowMs
    const isBack = atMs < this.#lastMs - STEP_BACK_MS
    if (!this.#hasHead || isBack || this.#names.size >= NAMES_MAX) this.begin(chunk, atMs)
    const name = this.#names.get(rule) ?? this.defineName(chunk, rule)
    const sinceMs = Math.max(0, atMs - this.#lastMs)
    this.#lastMs += sinceMs
    chunk.appendNumber(sinceMs)
    chunk.appendByte(TAB)
    chunk.appendNumber(name)
    chunk.appendByte(TAB)
    chunk.appendHash(caller)
    chunk.appendByte(TAB)
    chunk.appendNumber(amount)
    chunk.appendByte(TAB)
    chunk.appendByte(outcome)
    chunk.appendByte(TAB)
    chunk.appendByte(this.#source)
    chunk.appendByte(LINE_END)
    chunk.lines++
    if (this.#fileBytes + chunk.length >= this.#options.config.maxBytes) this.endFile()
  }

  /** Returns undefined if the buffer is full. */
  private chunkFor(bytes: number): LineChunk | undefined {
    if (this.#isClosed) return undefined
    if (this.#chunk?.hasRoom(bytes) === true) return this.#chunk
    this.seal()
    this.#chunk = this.#free.pop() ?? this.makeChunk()
    if (this.#chunk === undefined) return undefined
    this.#chunk.fileAction = this.#fileAction
    this.#fileAction = 'nothing'
    return this.#chunk
  }

  private makeChunk(): LineChunk | undefined {
    if (this.#made >= CHUNKS_MAX) return undefined
    this.#made++
    return new LineChunk()
  }

  private begin(chunk: LineChunk, startMs: number): void {
    chunk.appendText(headLine(startMs, this.#options.config.sample))
    this.#names.clear()
    this.#lastMs = startMs
    this.#hasHead = true
  }

  private defineName(chunk: LineChunk, rule: string): number {
    const name = this.#names.size
    this.#names.set(rule, name)
    chunk.appendText(`=${name} ${rule}\n`)
    return name
  }

  /** Queues the current chunk for writing. */
  private seal(): void {
    const chunk = this.#chunk
    if (chunk === undefined) return
    this.#chunk = undefined
    this.#fileBytes += chunk.length
    this.#waiting.push(chunk)
    this.#writing ??= this.write().finally(() => (this.#writing = undefined))
  }

  private endFile(): void {
    this.seal()
    this.#hasHead = false
    this.#fileAction = 'rotate'
    this.#fileBytes = 0
  }

  private async flushAll(): Promise<void> {
    await this.followFile()
    this.seal()
    await this.#writing
  }

  /** If the file was moved away, finishes it and begins a new one under the configured name. */
  private async followFile(): Promise<void> {
    if (this.#isClosed || this.#writing !== undefined || this.#inspecting !== undefined) return
    const inspection = this.#file.inspect()
    this.#inspecting = inspection.catch(() => undefined)
    const { isOther, size } = await inspection.finally(() => (this.#inspecting = undefined))
    if (!isOther) return
    this.seal()
    this.#hasHead = false
    this.#fileAction = 'reopen'
    this.#fileBytes = size
  }

  /** Never rejects. */
  private async write(): Promise<void> {
    await this.#inspecting
    for (let chunk = this.#waiting.shift(); chunk !== undefined; chunk = this.#waiting.shift()) {
      try {
        await this.prepare(chunk.fileAction)
        await this.#file.append(chunk.bytes)
        this.#lines += chunk.lines
        this.release(chunk)
      } catch (error) {
        this.discard(chunk)
        this.logProblem(error)
      }
    }
  }

  private async prepare(fileAction: FileAction): Promise<void> {
    if (fileAction === 'reopen') return this.#file.reopen()
    if (fileAction === 'nothing') return
    try {
      await this.#file.rotate()
    } catch (error) {
      // The file keeps growing meanwhile, up to a bound.
      this.logProblem(error)
    }
  }

  /** Drops all pending chunks, too, because their lines depend on the lost one. */
  private discard(chunk: LineChunk): void {
    const current = this.#chunk === undefined ? [] : [this.#chunk]
    for (const lost of [chunk, ...this.#waiting.splice(0), ...current]) {
      this.#dropped += lost.lines
      this.release(lost)
    }
    this.#chunk = undefined
    this.#hasHead = false
    this.#fileBytes = this.#file.size
    this.#fileAction = this.#fileBytes >= this.#options.config.maxBytes ? 'rotate' : 'nothing'
  }

  private release(chunk: LineChunk): void {
    chunk.clear()
    this.#free.push(chunk)
  }

  private logProblem(error: unknown): void {
    const { log, clock } = this.#options
    const nowMs = clock.now()
    if (nowMs < this.#nextLogMs && this.#nextLogMs - nowMs <= LOG_EVERY_MS) return
    this.#nextLogMs = nowMs + LOG_EVERY_MS
    log.error(
      { file: this.#path, problem: reasonOf(error), dropped: this.#dropped },
      'decision log: cannot write; decisions are not affected',
    )
  }
}

const TAB = 9
const LINE_END = 10
