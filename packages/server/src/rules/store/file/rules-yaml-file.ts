/**
 * `rules.yaml`: the present rules, for reading. It is written after the journal and never read
 * back, so it may lag behind, but is always complete. Edits by hand are moved aside, never lost.
 */
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { monotonicMs } from '../../../lib/wall-clock.js'
import type { Log } from '../../../observability/log/logger.js'
import {
  codeOf,
  type FileSystem,
  readSmallFile,
  reasonOf,
  removeIfExists,
  replaceFile,
} from './fs.js'
import { yamlPieces, readHead, withHead, type YamlRuleSet } from './rules-yaml-format.js'

const RULES_FILE = 'rules.yaml'
const DRAFT = `${RULES_FILE}.new`
const FILE_BYTES_MAX = 256 * 1024 * 1024

const WRITE_EVERY_MS = 100
const RETRY_MS = 5000
/** Writing waits this many times as long as the last write took, to bound its CPU share. */
const SHARE = 20
/** Pieces formatted before other work gets a turn of the event loop. */
const PIECES_PER_TURN = 100
const ASIDE_MAX = 1000

export interface RulesYamlFileDeps {
  readonly fs: FileSystem
  readonly folder: string
  readonly log: Log | undefined
  /** Returns the present rules. */
  readonly present: () => YamlRuleSet
  /** Returns the version of the present rules. */
  readonly version: () => number
  /** Resolves to why this process lost the lock; undefined: it did not. */
  readonly lossReason: () => Promise<string | undefined>
}

export class RulesYamlFile {
  readonly #deps: RulesYamlFileDeps
  readonly #path: string
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> | undefined
  /** The version in the file; undefined: unknown. */
  #writtenVersion: number | undefined
  #tookMs = 0
  #isClosed = false

  constructor(deps: RulesYamlFileDeps) {
    this.#deps = deps
    this.#path = join(deps.folder, RULES_FILE)
  }

  /** Rewrites the file if it is outdated or was edited. Never rejects. */
  async repair(): Promise<void> {
    const { fs, folder, log, version } = this.#deps
    try {
      await removeIfExists(fs, join(folder, DRAFT))
      const found = await this.inspect()
      if (found.version !== version() || !found.isWhole) await this.write()
      else this.#writtenVersion = found.version
    } catch (error) {
      log?.warn({ file: this.#path, error: reasonOf(error) }, 'rules.yaml: cannot write')
      this.writeLater(RETRY_MS)
    }
  }

  /** Writes soon, so that several changes are written together. */
  scheduleWrite(): void {
    this.writeLater(Math.max(WRITE_EVERY_MS, this.#tookMs * SHARE))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#timer = undefined
    await this.#writing
    if (this.#writtenVersion !== this.#deps.version()) await this.run()
  }

  private writeLater(ms: number): void {
    if (this.#isClosed || this.#timer !== undefined || this.#writing !== undefined) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#writing = this.run().finally(() => {
        this.#writing = undefined
        if (this.#writtenVersion !== this.#deps.version()) this.scheduleWrite()
      })
    }, ms).unref()
  }

  private async run(): Promise<void> {
    const { log } = this.#deps
    try {
      const from = monotonicMs()
      await this.write()
      this.#tookMs = monotonicMs() - from
    } catch (error) {
      log?.warn({ file: this.#path, error: reasonOf(error) }, 'rules.yaml: cannot write')
      this.#tookMs = RETRY_MS / SHARE
    }
  }

  private async write(): Promise<void> {
    const { fs, folder, present } = this.#deps
    const rules = present()
    const parts: string[] = []
    for (const part of yamlPieces(rules)) {
      parts.push(part)
      if (parts.length % PIECES_PER_TURN === 0) await nextTurn()
    }
    const lost = await this.#deps.lossReason()
    if (lost !== undefined) throw new Error(lost)
    await this.setAside(rules.version)
    const bytes = Buffer.from(withHead(rules.version, parts.join('')))
    await replaceFile(fs, folder, { draft: join(folder, DRAFT), path: this.#path, bytes })
    this.#writtenVersion = rules.version
  }

  /** Keeps a copy of the file if Sluice did not write its content, or if it is newer. */
  private async setAside(version: number): Promise<void> {
    const { fs, folder, log } = this.#deps
    const found = await this.inspect()
    if (found.isMissing || (found.isWhole && (found.version ?? 0) <= version)) return
    const name = found.isWhole ? `version-${found.version}` : `edited-${version}`
    for (let tries = 1; tries <= ASIDE_MAX; tries++) {
      const aside = join(folder, `${RULES_FILE}.${name}${tries === 1 ? '' : `-${tries}`}`)
      // A link, unlike a rename, never replaces what is there.
      if (!(await tryLink(fs, this.#path, aside))) {
        // An earlier attempt linked it, and then failed to write the new file.
        if (await isSameFile(fs, this.#path, aside)) return
        continue
      }
      const why = found.isWhole
        ? 'rules.yaml: newer than the rule store, moved aside'
        : 'rules.yaml: edited by hand, which has no effect; moved aside. To change rules: sluice rules apply -f FILE'
      log?.warn({ file: this.#path, kept: aside }, why)
      return
    }
    throw new Error(`found ${ASIDE_MAX} files ${RULES_FILE}.${name}; remove some`)
  }

  private async inspect(): Promise<ReturnType<typeof readHead> & { readonly isMissing: boolean }> {
    const text = await readSmallFile(this.#deps.fs, this.#path, FILE_BYTES_MAX)
    return { ...readHead(text ?? ''), isMissing: text === undefined }
  }
}

async function isSameFile(fs: FileSystem, one: string, other: string): Promise<boolean> {
  return (await fs.stat(one)).ino === (await fs.stat(other)).ino
}

async function tryLink(fs: FileSystem, from: string, to: string): Promise<boolean> {
  try {
    await fs.link(from, to)
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  }
}
