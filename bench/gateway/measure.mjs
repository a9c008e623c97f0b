/** Alternating rounds over subjects that all run, each measured while the others are idle. */
import { once } from 'node:events'
import { median, printTable } from '../report.mjs'
import { cpuSeconds } from './processes.mjs'

const quick = process.argv.includes('--quick')
export const ROUNDS = quick ? 3 : 11
export const AMOUNT = quick ? 5000 : 20_000
const WARM_UP = quick ? 5000 : 15_000

/** Fills `results` of every subject: one entry per round, in the same order for all. */
export async function measureAll(load, subjects, requests) {
  for (const subject of subjects) {
    process.stderr.write(`warming ${subject.name}\n`)
    await measure(load, subject, requests, WARM_UP)
    subject.results = []
  }
  for (let round = 0; round < ROUNDS; round++) {
    process.stderr.write(`round ${round + 1} of ${ROUNDS}\n`)
    // Forward and back, so that a machine that slows down does not penalize the last.
    const turn = round % 2 === 0 ? subjects : subjects.toReversed()
    for (const subject of turn) {
      subject.results.push(await measure(load, subject, requests, AMOUNT))
    }
  }
}

async function measure(load, { name, pid, url }, requests, amount) {
  const before = cpuSeconds(pid)
  load.send({ url, requests, amount })
  const [{ rate, p50, p99, failed }] = await once(load, 'message')
  if (failed !== undefined) throw new Error(`${name}: ${failed}`)
  const cpu = ((cpuSeconds(pid) - before) / amount) * 1e6
  return { rate, cpu, p50, p99 }
}

/** The ratio of a figure of two subjects in each round: its median, lowest and highest. */
export function ratioOf(subject, base, figure) {
  const ratios = subject.results.map(
    (result, round) => result[figure] / base.results[round][figure],
  )
  return { median: median(ratios), least: Math.min(...ratios), most: Math.max(...ratios) }
}

/** One line per subject: medians of its results. */
export function printSubjects(subjects) {
  const cell = (results, figure, digits) =>
    median(results.map((result) => result[figure])).toFixed(digits)
  printTable(
    ['', 'requests/s', 'CPU, us/request', 'p50, ms', 'p99, ms'],
    subjects.map(({ name, results }) => [
      name,
      cell(results, 'rate', 0),
      cell(results, 'cpu', 1),
      cell(results, 'p50', 2),
      cell(results, 'p99', 2),
    ]),
  )
}

/** One line per ratio: its target, if any, and whether it was reached. */
export function printRatios(title, lines) {
  printTable(
    [title, 'median', 'lowest', 'highest', 'target', ''],
    lines.map(({ what, ratio, target = '', isReached }) => [
      what,
      ...[ratio.median, ratio.least, ratio.most].map((number) => number.toFixed(3)),
      target,
      isReached === undefined ? '' : isReached(ratio.median) ? 'reached' : 'NOT reached',
    ]),
  )
}
