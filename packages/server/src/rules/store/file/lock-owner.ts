/** Identifies the owner of a lock, so that another process can check whether it is alive. */
import { randomBytes } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import { pid } from 'node:process'

export interface LockOwner {
  /** Random for each process that opens the folder. */
  readonly id: string
  readonly pid: number
  readonly host: string
  /**
   * The scope of `pid`: host, boot and pid namespace. Containers share hosts, and each has its own
   * process 1.
   */
  readonly place: string
  /** Start time of the process, as the kernel counts it; empty: unknown. */
  readonly started: string
  /** The release of Sluice, for messages. */
  readonly release: string
}

/**
 * Whether a process lives, as seen from this host; unknown: only the time of its last touch can
 * show it.
 */
export type Liveness = 'alive' | 'dead' | 'unknown'

export interface ProcessContext {
  readonly self: LockOwner
  readonly livenessOf: (other: LockOwner) => Liveness
}

export function processContext(release: string): ProcessContext {
  const self: LockOwner = {
    id: randomBytes(8).toString('hex'),
    pid,
    host: hostname(),
    place: currentPlace(),
    started: procStat(pid)?.started ?? '',
    release,
  }
  return { self, livenessOf: (other) => livenessOf(other, self.place) }
}

function livenessOf(other: LockOwner, place: string): Liveness {
  if (other.place === '' || other.place !== place) return 'unknown'
  if (!isRunning(other.pid)) return 'dead'
  const found = procStat(other.pid)
  if (found === undefined || other.started === '') return 'unknown'
  return found.started === other.started && !found.hasEnded ? 'alive' : 'dead'
}

function currentPlace(): string {
  const boot = attempt(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim())
  const space = attempt(() => readlinkSync('/proc/self/ns/pid'))
  return [hostname(), boot ?? '', space ?? ''].join(' ')
}

function isRunning(otherPid: number): boolean {
  try {
    process.kill(otherPid, 0)
    return true
  } catch (error) {
    // Any other error, such as EPERM, means that the process exists.
    return error instanceof Error && 'code' in error && error.code !== 'ESRCH'
  }
}

/** Returns undefined where the system has no `/proc`. */
function procStat(ofPid: number): { started: string; hasEnded: boolean } | undefined {
  const text = attempt(() => readFileSync(`/proc/${ofPid}/stat`, 'utf8'))
  // The second field is the name in parentheses, which may contain anything.
  const fields = text?.slice(text.lastIndexOf(')') + 2).split(' ')
  const [state, started] = [fields?.[0], fields?.[19]]
  if (state === undefined || started === undefined) return undefined
  return { started, hasEnded: state === 'Z' || state === 'X' }
}

function attempt<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}
