/**
 * Two workers that each count their answers, for workers.test.ts. With `--heir` a child outlives
 * each of them; `--patience` sets how many heartbeats a worker may miss. With `--held` the second
 * one reports that it is held, and listens once it gets SIGUSR2.
 */
import { spawn } from 'node:child_process'
import { createServer } from 'node:http'
import { StopSignals } from '../packages/server/dist/lib/stop-signals.js'
import { runWorkers, workerSide } from '../packages/server/dist/workers.js'

const say = (text) => process.stdout.write(text)
const log = { error: (fields, message) => say(`${message} ${fields.signal ?? fields.pid}\n`) }
const patience = /--patience=(\d+)/.exec(process.argv.join(' '))?.[1]
const silentChecksMax = patience === undefined ? undefined : Number(patience)
const onRestart = (reason) => say(`replaced ${reason}\n`)
const worker = workerSide(0)
const CHANNEL = 3

/** A process that outlives this one for a moment and holds the channel to the primary process. */
const leaveChannelOpen = () =>
  spawn('sleep', ['0.5'], { stdio: ['ignore', 'ignore', 'ignore', CHANNEL] })

if (worker === undefined) {
  const signals = new StopSignals(() => process.exit())
  const options = { count: 2, log, signals, withinMs: 5000, onListening: say, onRestart }
  process.exitCode = await runWorkers({ ...options, silentChecksMax })
} else {
  let calls = 0
  worker.shareMetrics(() => `# TYPE calls_total counter\ncalls_total ${calls}\n`)
  const server = createServer((request, response) => {
    if (request.url === '/metrics') {
      say(`asked ${process.pid}\n`)
      void worker.allMetrics().then((text) => response.end(text))
      return
    }
    if (request.url === '/loop') for (;;);
    calls++
    response.end(String(process.pid))
  })
  const listen = () =>
    server.listen(0, '127.0.0.1', () => {
      worker.announce(`port ${server.address().port}\n`)
      // Its answer comes after the primary process has read that this one serves.
      void worker.allMetrics().then(() => say(`serving ${process.pid}\n`))
    })
  if (process.argv.includes('--held') && process.env.SLUICE_WORKER_PLACE === '1') {
    process.once('SIGUSR2', listen)
    say(`held ${process.pid}\n`)
  } else {
    listen()
  }
  process.on('SIGTERM', () => {
    if (process.argv.includes('--heir')) leaveChannelOpen()
    process.exit(0)
  })
}
