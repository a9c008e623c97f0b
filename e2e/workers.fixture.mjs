/** Two workers that each count what they answer: what the test of workers runs. */
import { spawn } from 'node:child_process'
import { createServer } from 'node:http'
import { runWorkers, workerSide } from '../packages/server/dist/workers.js'

const say = (text) => process.stdout.write(text)
const log = { error: (fields, message) => say(`${message} ${fields.signal}\n`) }
const worker = workerSide(0)
const CHANNEL = 3

/** A process that outlives this one for a moment and holds the channel to the first process. */
const leaveChannelOpen = () =>
  spawn('sleep', ['0.5'], { stdio: ['ignore', 'ignore', 'ignore', CHANNEL] })

if (worker === undefined) {
  process.exitCode = await runWorkers({ count: 2, log, withinMs: 5000, onListening: say })
} else {
  let calls = 0
  worker.share(() => `# TYPE calls_total counter\ncalls_total ${calls}\n`)
  const server = createServer((request, response) => {
    if (request.url === '/metrics') {
      say(`asked ${process.pid}\n`)
      void worker.allMetrics().then((text) => response.end(text))
      return
    }
    calls++
    response.end(String(process.pid))
  })
  server.listen(0, '127.0.0.1', () => worker.announce(`port ${server.address().port}\n`))
  process.on('SIGTERM', () => {
    if (process.argv.includes('--heir')) leaveChannelOpen()
    process.exit(0)
  })
}
