/**
 * Runs many `sluice` command lines, one after the other in one process, because a start costs more
 * than most of them. Each ends with a NUL on both streams, and with its exit code before that of
 * stdout.
 */
import { main } from '../packages/cli/dist/index.js'

const io = {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  readInput: () => Promise.resolve(''),
  prompt: () => Promise.resolve(''),
  isTerminal: false,
  columns: undefined,
  flush: () => Promise.resolve(),
}

for (const { args, env } of JSON.parse(process.argv[2])) {
  Object.assign(process.env, env)
  const code = await main(args, io)
  process.stdout.write(`\0${code}\0`)
  process.stderr.write('\0')
}
