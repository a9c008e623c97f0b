/**
 * Real programs as child processes of a test: each starts in its own folder and is stopped by its
 * id.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../tools/ports.mjs'

/** No claim about speed: so long that only a program that hangs takes it on a busy machine. */
const START_MS_MAX = 120_000
const LOOK_EVERY_MS = 20
const OUTPUT_LENGTH_MAX = 100_000

export interface Program {
  /** Undefined if it could not be started. */
  readonly pid: number | undefined
  /** Its output so far, without the oldest part if it is long. */
  output(): string
  signal(name: NodeJS.Signals): void
  /** Whether it has exited for any reason. */
  hasEnded(): boolean
  /** Its exit code once it has exited; null if a signal ended it. */
  code(): Promise<number | null>
  /** Kills it as a crash would; resolves when it is gone. */
  stop(): Promise<void>
}

const running = new Set<ChildProcess>()
const folders = new Set<string>()

/** An interrupted run must leave neither programs nor folders behind. */
function sweep(): void {
  for (const child of running) child.kill('SIGKILL')
  removeFolders()
}

process.on('exit', sweep)
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, () => {
    sweep()
    process.kill(process.pid, signal)
  })
}

/** A new folder, kept until `stopAll`. */
export function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-e2e-'))
  folders.add(folder)
  return folder
}

function removeFolders(): void {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
  folders.clear()
}

/** Stops every program, also those that failed to start, and removes their folders. */
export async function stopAll(): Promise<void> {
  const ended = [...running].map((child) => new Promise((resolve) => child.once('close', resolve)))
  for (const child of running) child.kill('SIGKILL')
  await Promise.all(ended)
  removeFolders()
}

export interface ProgramOptions {
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
}

export function startProgram(
  command: string,
  args: readonly string[],
  { cwd, env = {} }: ProgramOptions,
): Program {
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  const keep = (chunk: Buffer) => {
    output = `${output}${chunk.toString()}`.slice(-OUTPUT_LENGTH_MAX)
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  running.add(child)
  const ended = new Promise<number | null>((resolve) => {
    child.once('error', (error) => {
      output += String(error)
      running.delete(child)
      resolve(null)
    })
    // Not `exit`: the last output may still be on its way.
    child.once('close', (code) => {
      running.delete(child)
      resolve(code)
    })
  })
  return {
    pid: child.pid,
    output: () => output,
    signal: (name) => void child.kill(name),
    hasEnded: () => !running.has(child),
    code: () => ended,
    async stop() {
      child.kill('SIGKILL')
      await ended
    },
  }
}

/**
 * Waits for a condition; fails with the program's output if the program exits first or time is up.
 */
export async function waitFor(program: Program, isSo: () => boolean | Promise<boolean>) {
  const until = Date.now() + START_MS_MAX
  while (!(await isSo())) {
    if (program.hasEnded()) throw new Error(`It ended:\n${program.output()}`)
    if (Date.now() > until) throw new Error(`Not within ${START_MS_MAX} ms:\n${program.output()}`)
    await sleep(LOOK_EVERY_MS)
  }
}

export function listensOn(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('error', () => resolve(false))
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
  })
}

/** Distinct ports that were free a moment ago. */
export async function freePorts<Name extends string>(
  ...names: readonly Name[]
): Promise<Readonly<Record<Name, number>>> {
  const found = await Promise.all(names.map(async (name) => [name, await freePort()] as const))
  return Object.fromEntries(found) as Record<Name, number>
}
