/** What a command reads and writes, so that tests can give it their own. */
import process from 'node:process'
import { createInterface } from 'node:readline/promises'
import { wallMs } from './clock.js'
import { UsageError, OutputError } from './command-errors.js'

export interface Io {
  /** What was asked for. */
  readonly out: (text: string) => void
  /** What is said beside it: questions, progress, failures. */
  readonly err: (text: string) => void
  /** Standard input, to its end. */
  readonly readInput: (bytesMost: number) => Promise<string>
  /** One line of a person; empty where nobody answers. */
  readonly prompt: (question: string) => Promise<string>
  /** Whether a person is there to be asked. */
  readonly isTerminal: boolean
  /** How wide what was asked for may be; undefined: nobody looks, a program reads it. */
  readonly columns: number | undefined
  /** Milliseconds since 1970. */
  readonly now: () => number
  /** Ends early when nothing more can be written: see `isOutputOpen`. */
  readonly wait: (ms: number) => Promise<void>
  /** False once the reader of the output has gone (`| head`), or the disk below it is full. */
  readonly isOutputOpen: () => boolean
  /** Settles when everything is written; rejects where something could not be, on a full disk. */
  readonly flush: () => Promise<void>
}

interface Input extends NodeJS.ReadableStream {
  readonly isTTY?: boolean
}

interface Output extends NodeJS.WritableStream {
  readonly isTTY?: boolean
  readonly columns?: number
}

interface Streams {
  readonly stdin: Input
  readonly stdout: Output
  readonly stderr: Output
}

/** Of this process. Nothing is touched before it is used: `serve` writes on its own. */
export function processIo({ stdin, stdout, stderr }: Streams = process): Io {
  const writers = new Map<Output, Writer>()
  const write = (stream: Output, text: string) => {
    let writer = writers.get(stream)
    if (writer === undefined) {
      writer = createWriter(stream)
      writers.set(stream, writer)
    }
    writer.write(text)
  }
  const output = () => writers.get(stdout)
  return {
    out: (text) => write(stdout, text),
    err: (text) => write(stderr, text),
    readInput: (bytesMost) => readInput(stdin, bytesMost),
    prompt: (question) => promptLine(question, stdin, stderr),
    isTerminal: stdin.isTTY === true && stderr.isTTY === true,
    columns: stdout.isTTY === true ? stdout.columns : undefined,
    now: wallMs,
    wait: (ms) => waitUnlessClosed(ms, output()),
    isOutputOpen: () => output()?.isOpen() !== false,
    flush: async () => {
      await Promise.all([...writers.values()].map((writer) => writer.flush()))
    },
  }
}

interface Writer {
  readonly write: (text: string) => void
  readonly isOpen: () => boolean
  /** Settles when nothing more can be written. */
  readonly closed: Promise<void>
  readonly flush: () => Promise<void>
}

/**
 * Drops what is written after the reader has gone: one that has seen enough (`| head`) is no
 * failure, and no reason to stop half way through a change. Any other loss fails the flush.
 */
function createWriter(stream: Output): Writer {
  let isOpen = true
  let failure: Error | undefined
  let close = () => {}
  const closed = new Promise<void>((done) => {
    close = done
  })
  stream.on('error', (error: NodeJS.ErrnoException) => {
    isOpen = false
    if (error.code !== 'EPIPE') failure ??= error
    close()
  })
  return {
    isOpen: () => isOpen,
    closed,
    write: (text) => {
      if (isOpen) stream.write(text)
    },
    flush: async () => {
      if (stream.writable) await new Promise<void>((done) => void stream.write('', () => done()))
      // A failure is known to the stream before it is told.
      await new Promise<void>((done) => void setImmediate(done))
      if (failure === undefined) return
      throw new OutputError(`output: ${failure.message}`, { cause: failure })
    },
  }
}

async function waitUnlessClosed(ms: number, output: Writer | undefined): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const elapsed = new Promise<void>((done) => {
    timer = setTimeout(done, ms)
  })
  await Promise.race([elapsed, ...(output === undefined ? [] : [output.closed])])
  clearTimeout(timer)
}

async function readInput(stdin: Input, bytesMost: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stdin as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > bytesMost) {
      throw new UsageError(
        `standard input: found more than ${bytesMost} bytes; accepted: up to that`,
      )
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

async function promptLine(question: string, input: Input, output: Output): Promise<string> {
  const lines = createInterface({ input, output })
  try {
    // The end of the input and Ctrl-C answer nothing, and `question` would wait for ever.
    const closed = new Promise<undefined>((done) => lines.once('close', () => done(undefined)))
    const answer = await Promise.race([lines.question(question), closed])
    // Nobody ended the line of the question, and what follows is no answer to it.
    if (answer === undefined) output.write('\n')
    return answer ?? ''
  } finally {
    lines.close()
  }
}
