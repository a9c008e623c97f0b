/** The folder of the sockets by which workers ask each other for counters. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { messageOf } from '../lib/message-of.js'

/** The system accepts 107 bytes for the path of a socket, on macOS 103. */
const PATH_BYTES_MAX = 103
/** The longest name of a socket in the folder. */
const LONGEST_NAME = '/63.sock'

/**
 * Makes a folder that only this user can open: a temporary one, or one in the data directory where
 * there is none. Throws if neither can be had.
 */
export function makeRingDirectory(dataDir: string): string {
  try {
    return requireShort(mkdtempSync(join(tmpdir(), 'sluice-ring-')))
  } catch (unusable) {
    try {
      mkdirSync(dataDir, { recursive: true, mode: 0o700 })
      return requireShort(mkdtempSync(join(dataDir, 'ring-')))
    } catch (cause) {
      const found = `no folder for the sockets of the workers: ${messageOf(unusable)}; ${messageOf(cause)}`
      throw new Error(`Found ${found}. Accepted: TMPDIR, a folder with a short path to write to`, {
        cause,
      })
    }
  }
}

export function removeRingDirectory(directory: string): void {
  rmSync(directory, { recursive: true, force: true })
}

function requireShort(directory: string): string {
  if (Buffer.byteLength(directory + LONGEST_NAME) <= PATH_BYTES_MAX) return directory
  rmSync(directory, { recursive: true, force: true })
  throw new Error(`${directory}: the path of a socket has at most ${PATH_BYTES_MAX} bytes`)
}
