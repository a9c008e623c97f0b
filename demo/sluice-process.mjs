/** `sluice serve` as a child process of a demo. */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const COMMAND = fileURLToPath(new URL('../packages/cli/bin/sluice.mjs', import.meta.url))
const OUTPUT_LENGTH_MAX = 20_000

/**
 * Starts it in a folder with this configuration. `listening` resolves with the addresses that it
 * prints, and rejects if it ends before.
 * @param {object} options
 * @param {string} options.folder
 * @param {object} options.config
 * @param {Record<string, string>} options.env
 * @param {() => void} options.onEnd
 */
export function startSluice({ folder, config, env, onEnd }) {
  writeFileSync(join(folder, 'sluice.json'), JSON.stringify(config))
  const child = spawn(process.execPath, [COMMAND, 'serve', '--json', '--config', 'sluice.json'], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'], ...env },
  })
  const listening = new Promise((resolve, reject) => {
    let output = ''
    const read = (chunk) => {
      output = (output + chunk).slice(-OUTPUT_LENGTH_MAX)
      const line = /^\{"gateway".*\}$/m.exec(output)?.[0]
      if (line !== undefined) resolve(JSON.parse(line))
    }
    child.stdout.on('data', read)
    child.stderr.on('data', read)
    child.once('exit', (code) => {
      reject(new Error(`the server ended with code ${code}:\n${output}`))
      onEnd()
    })
  })
  return { listening, stop: () => stop(child) }
}

async function stop(child) {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGTERM')
  await ended
}
