/**
 * `npm run dev [-- --config sluice.yaml]`: runs `sluice serve`, and rebuilds and restarts it when a
 * source file of a package changes. This includes the dashboard: reload the page.
 */
import { spawn } from 'node:child_process'
import { watch } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const COMMAND = 'packages/cli/bin/sluice.mjs'
const PACKAGES = ['api', 'core', 'http2-unary', 'limiter', 'server', 'client', 'cli', 'dashboard']
/** Editors and git write several files in a row, which one build covers. */
const SETTLE_MS = 150
/** How long a server may take to finish its calls. */
const STOP_MS_MAX = 5000

const args = process.argv.slice(2)
/** The running server, and a promise of its end. */
let server
let isStopping = false

const say = (text) => console.log(`dev: ${text}`)

function run(command, commandArgs) {
  const child = spawn(command, commandArgs, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] })
  const ended = new Promise((resolve) => {
    child.once('error', (error) => resolve(String(error)))
    child.once('exit', (code, signal) => resolve(signal ?? code))
  })
  return { child, ended }
}

async function stopServer() {
  if (server === undefined) return
  const { child, ended } = server
  server = undefined
  child.kill('SIGINT')
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS_MAX)
  await ended
  clearTimeout(timer)
}

function startServer() {
  const started = run(process.execPath, ['--enable-source-maps', COMMAND, 'serve', ...args])
  server = started
  void started.ended.then((end) => {
    if (server !== started) return
    server = undefined
    if (!isStopping) say(`the server ended (${end}); it starts again with the next change`)
  })
}

async function rebuild(what) {
  say(what)
  const began = performance.now()
  if ((await run('npm', ['run', '--silent', 'build']).ended) !== 0) {
    return say(
      `the build failed; ${server === undefined ? 'no server runs' : 'the old server runs on'}`,
    )
  }
  await stopServer()
  if (isStopping) return
  say(`built in ${((performance.now() - began) / 1000).toFixed(1)} s; the server starts`)
  startServer()
}

const isSource = (name) =>
  /\.(ts|tsx|css|html|lua)$/.test(name) &&
  !/\.test(-helper)?\.tsx?$/.test(name) &&
  // The build itself writes these.
  !name.startsWith('generated/')

/** Runs one build at a time; the next build covers changes during one. */
let building = Promise.resolve()
const changed = new Set()
let timer

function onChange(file) {
  changed.add(file)
  clearTimeout(timer)
  timer = setTimeout(() => {
    const files = [...changed].join(', ')
    changed.clear()
    building = building.then(() => rebuild(`${files} changed; building`))
  }, SETTLE_MS)
}

for (const name of PACKAGES) {
  const folder = `packages/${name}/src`
  watch(`${root}/${folder}`, { recursive: true }, (_event, file) => {
    if (file !== null && isSource(file)) onChange(`${folder}/${file}`)
  })
}
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    if (isStopping) return
    isStopping = true
    void stopServer().then(() => process.exit(0))
  })
}
building = rebuild('building')
