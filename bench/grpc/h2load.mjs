/** Load by h2load: 4 connections of 100 streams, and the CPU time of the server meanwhile. */
import { execFile, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cpuSeconds, placed } from '../gateway/processes.mjs'

const CONNECTIONS = 4
const STREAMS = 100
export const SHAPE = `${CONNECTIONS} connections of ${STREAMS} streams`

if (spawnSync('h2load', ['--version']).error !== undefined) {
  throw new Error('h2load: not found. On Debian: apt-get install nghttp2-client')
}

const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-grpc-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
const log = join(folder, 'log')
const body = join(folder, 'body')

/**
 * Sends `calls` requests of a method as fast as they are answered, or `perSecond`. Fails unless
 * each has status 200 and an answer of at least `answerBytes`: a call that fails has none.
 */
export async function load({ name, pid, url, path, request, answerBytes, calls, perSecond }) {
  writeFileSync(body, request)
  rmSync(log, { force: true })
  const headers = ['content-type: application/grpc', 'te: trailers'].flatMap((line) => ['-H', line])
  const rate = perSecond === undefined ? [] : [`--rps=${perSecond / CONNECTIONS}`]
  const shape = [`-c${CONNECTIONS}`, `-m${STREAMS}`, `-n${calls}`, ...rate]
  const flags = [...shape, `--log-file=${log}`, '-d', body, ...headers]
  const [command, ...args] = [...placed('load'), 'h2load', ...flags, `${url}${path}`]
  const before = cpuSeconds(pid)
  const { stdout } = await promisify(execFile)(command, args)
  const cpuUs = ((cpuSeconds(pid) - before) / calls) * 1e6
  const answers = Number(/\((\d+)\) data/.exec(stdout)?.[1])
  if (!stdout.includes(` ${calls} succeeded`) || !(answers >= calls * answerBytes)) {
    throw new Error(`${name}: calls failed\n${stdout}`)
  }
  return { cpuUs, perSecond: Number(/([\d.]+) req\/s/.exec(stdout)?.[1]), ...readLatencies() }
}

/** The log has a line for each request: its start, its status and its microseconds. */
function readLatencies() {
  const lines = readFileSync(log, 'utf8').trimEnd().split('\n')
  const times = Float64Array.from(lines, (line) => Number(line.split('\t')[2]) / 1000).sort()
  const mean = times.reduce((sum, ms) => sum + ms, 0) / times.length
  return { meanMs: mean, p99Ms: times[Math.ceil(times.length * 0.99) - 1], maxMs: times.at(-1) }
}
