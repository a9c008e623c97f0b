/** A real redis-server whose clock can be set forward and back while it runs. */
import { execFile } from 'node:child_process'
import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { findService } from '../services.mjs'
import { startRedis, type RedisOptions, type RedisServer } from './server.mjs'
import { makeFolder } from './sweeper.mjs'

export interface ShiftedRedis extends RedisServer {
  /** Sets how far its clock is ahead of the machine's, also after `restart`. */
  shiftClock(ms: number): void
}

export async function startShiftedRedis(options: RedisOptions = {}): Promise<ShiftedRedis> {
  const { env, file } = await makeClock(0)
  const server = await startRedis({ ...options, env: { ...options.env, ...env } })
  return Object.assign(server, { shiftClock: (ms: number) => setClock(file, ms) })
}

/** The environment of a program whose clock is this far ahead of the machine's. */
export async function shiftedClockEnv(ms: number): Promise<Readonly<Record<string, string>>> {
  return (await makeClock(ms)).env
}

async function makeClock(ms: number) {
  shim ??= compileShim()
  const library = await shim
  clocks += 1
  const file = `${library}-${clocks}`
  writeFileSync(file, bytesOf(ms))
  return { file, env: { LD_PRELOAD: library, SLUICE_CLOCK_FILE: file } }
}

let shim: Promise<string> | undefined
let clocks = 0

async function compileShim(): Promise<string> {
  const source = fileURLToPath(new URL('clock-shim.c', import.meta.url))
  const library = join(makeFolder(), 'clock-shim.so')
  const args = ['-shared', '-fPIC', '-O2', '-Wall', '-Werror', '-o', library, source]
  await promisify(execFile)(findService('cc'), args)
  return library
}

/** Written in place: the server has the file mapped, and would crash if it were truncated. */
function setClock(file: string, ms: number): void {
  const mapped = openSync(file, 'r+')
  writeSync(mapped, bytesOf(ms), 0, 8, 0)
  closeSync(mapped)
}

function bytesOf(ms: number): Uint8Array {
  return new Uint8Array(BigInt64Array.of(BigInt(Math.round(ms * 1000))).buffer)
}
