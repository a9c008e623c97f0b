/** Alternating rounds over subjects that all run, each measured while the others are idle. */
import { median } from '../report.mjs'
import { readStore, startStore, startWorker } from './processes.mjs'
import { MAX_UNREACHED } from './subjects.mjs'

export const quick = process.argv.includes('--quick')
/** A long deadline: the benchmark measures throughput, so no call times out. */
const DEADLINE_MS = 10_000

/** A Redis for each subject, with every counter that is used later. */
export async function openSubjects(names) {
  const subjects = []
  for (const name of names) {
    process.stderr.write(`filling ${name}\n`)
    const subject = { name, server: await startStore(), workers: [] }
    await useWorkers([subject], { warms: false })
    await subject.workers[0].order({ kind: 'fill' })
    subjects.push(subject)
  }
  return subjects
}

/** Replaces the processes of all subjects; the new ones are warmed up when it resolves. */
export async function useWorkers(subjects, { processes = 1, warms = true, ...options }) {
  const all = { deadlineMs: DEADLINE_MS, autoPipelining: true, max: MAX_UNREACHED, ...options }
  for (const subject of subjects) {
    await Promise.all(subject.workers.map((worker) => worker.stop()))
    const { name, server } = subject
    const url = subject.url ?? server.url
    const seeds = Array.from({ length: processes }, (_, i) => i + 1)
    const start = (seed) => startWorker({ subject: name, url, seed, ...all })
    subject.workers = await Promise.all(seeds.map(start))
    if (warms) {
      await Promise.all(subject.workers.map((worker) => worker.order({ kind: 'warm' })))
    }
  }
}

/** The results of every subject, in a map by its name: one for each round, in the same order. */
export async function measureRounds(subjects, rounds, measure) {
  const results = new Map(subjects.map(({ name }) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    // Forward and back, so that a machine that slows down does not penalize the last.
    const turn = round % 2 === 0 ? subjects : subjects.toReversed()
    for (const subject of turn) results.get(subject.name).push(await measure(subject))
  }
  return results
}

/** One round of one subject: this many processes share the concurrent calls. */
export async function measureClosed({ server, workers }, { waiting, processes = 1, ...order }) {
  const busy = workers.slice(0, processes)
  const before = await readStore(server)
  const answers = await Promise.all(
    busy.map((worker) => worker.order({ kind: 'closed', waiting: waiting / processes, ...order })),
  )
  const after = await readStore(server)
  const sum = (of) => answers.reduce((total, answer) => total + of(answer), 0)
  const decisions = sum((answer) => answer.decisions)
  return {
    rate: sum((answer) => answer.decisions / answer.seconds),
    clientUs: sum(({ cpuUs }) => cpuUs) / decisions,
    redisUs: (after.cpuUs - before.cpuUs) / decisions,
    p50: median(answers.map(({ p50 }) => p50)),
    p99: Math.max(...answers.map(({ p99 }) => p99)),
  }
}

export function medianOf(results, figure) {
  return median(results.map((result) => result[figure]))
}

/** The ratio of a figure of two subjects in each round: its median, lowest and highest. */
export function ratioOf(results, base, figure) {
  const ratios = results.map((result, round) => result[figure] / base[round][figure])
  return { median: median(ratios), least: Math.min(...ratios), most: Math.max(...ratios) }
}
