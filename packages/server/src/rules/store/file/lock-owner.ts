/** Who holds a lock, in terms that another process can check. */
import { randomBytes } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import { pid } from 'node:process'

export interface LockOwner {
  /** Random: no two openers have the same. */
  readonly id: string
  readonly pid: number
  readonly host: string
  /**
   * Where `pid` means something: one start of one machine, and one space of process ids in it.
   * Containers share machines, and each has its own process 1.
   */
  readonly place: string
  /** When the process was started, in the terms of its place; empty: nobody can tell. */
  readonly started: string
  /** Of Sluice, for people. */
  readonly release: string
}

/** Alive or dead as far as it can be seen from here; unknown: only its silence can tell. */
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
    // Somebody else's process is one too.
    return error instanceof Error && 'code' in error && error.code !== 'ESRCH'
  }
}

/** Undefined where the system has no such file. */
function procStat(ofPid: number): { started: string; hasEnded: boolean } | undefined {
  const text = attempt(() => readFileSync(`/proc/${ofPid}/stat`, 'utf8'))
  // The second field is the name in parentheses, which may hold anything.
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
