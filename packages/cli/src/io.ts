/** Input and output of a command, which tests can replace. */
import process from 'node:process'
import { createInterface } from 'node:readline/promises'
import { wallMs } from './clock.js'
import { UsageError, OutputError } from './command-errors.js'

export interface Io {
  /** Writes the result. */
  readonly out: (text: string) => void
  /** Writes questions, progress and errors. */
  readonly err: (text: string) => void
  /** Reads standard input to its end. */
  readonly readInput: (bytesMost: number) => Promise<string>
  /** Asks a question and returns one line; empty if there is no answer. */
  readonly prompt: (question: string) => Promise<string>
  /** Whether there is a user to answer questions. */
  readonly isTerminal: boolean
  /** The width of the terminal; undefined if the output goes to a program or a file. */
  readonly columns: number | undefined
  /** Milliseconds since 1970. */
  readonly now: () => number
  /** Ends early when nothing more can be written: see `isOutputOpen`. */
  readonly wait: (ms: number) => Promise<void>
  /** False once the reader has closed the output (`| head`), or the disk is full. */
  readonly isOutputOpen: () => boolean
  /** Resolves when everything is written; rejects if something could not be, as on a full disk. */
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

/** The streams of this process. None is touched before it is used: `serve` writes on its own. */
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
  /** Resolves when nothing more can be written. */
  readonly closed: Promise<void>
  readonly flush: () => Promise<void>
}

/**
 * Drops output after the reader has closed it: a reader that has seen enough (`| head`) is not a
 * failure, and must not stop a change half way. Any other loss fails the flush.
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
      // The stream is marked as failed before the error event.
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
    // The end of the input and Ctrl-C give no answer, and `question` would wait forever.
    const closed = new Promise<undefined>((done) => lines.once('close', () => done(undefined)))
    const answer = await Promise.race([lines.question(question), closed])
    // The line of the question is not ended yet, and the following output must not continue it.
    if (answer === undefined) output.write('\n')
    return answer ?? ''
  } finally {
    lines.close()
  }
}
