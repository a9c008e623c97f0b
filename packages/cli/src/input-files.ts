/** Reads files that a command line names. */
import { openSync, closeSync, fstatSync, readFileSync, writeFileSync } from 'node:fs'
import { show } from '@sluice/core'
import { UsageError } from './command-errors.js'
import type { Io } from './io.js'

/** Rules have up to 16 Mi characters of up to four bytes. */
const RULES_BYTES_MAX = 64 * 1024 * 1024
const FILE_SHOWN_MAX = 256

export interface InputText {
  readonly text: string
  /** The name of the file in messages. */
  readonly file: string
}

/** `-` is standard input. */
export async function readInputFile(
  io: Io,
  file: string,
  bytesMost = RULES_BYTES_MAX,
): Promise<InputText> {
  if (file === '-') return { text: await io.readInput(bytesMost), file: 'stdin' }
  let fd: number | undefined
  try {
    fd = openSync(file, 'r')
    const { size } = fstatSync(fd)
    if (size > bytesMost) throw new Error(`found ${size} bytes; accepted: up to ${bytesMost}`)
    return { text: readFileSync(fd, 'utf8'), file: show(file, FILE_SHOWN_MAX) }
  } catch (error) {
    throw new UsageError(
      `${show(file, FILE_SHOWN_MAX)}: ${error instanceof Error ? error.message : String(error)}`,
    )
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

export function writeOutputFile(file: string, text: string): void {
  try {
    writeFileSync(file, text)
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}
