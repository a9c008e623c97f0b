/** Many keys at once. */
import type { Command } from 'commander'
import { OK, REFUSED } from '../failures.js'
import { readNamed } from '../files.js'
import { type PlacedKey, readKeyList } from '../key-list.js'
import { safe } from '../safe.js'
import {
  type ChangeFlags,
  type Cli,
  helpOf,
  run,
  type Session,
  withWhy,
  wholeNumber,
} from '../session.js'

// No single quotes: the check of the layout would take what follows for the name of a module.
const NAME = `import`
const BATCH = 1000
const LOGGED_EVERY = 100_000
const BYTES_MAX = 512 * 1024 * 1024
/** The admin API takes bodies of 256 KB. */
const BATCH_BYTES_MAX = 250_000

interface ImportFlags extends ChangeFlags {
  readonly file: string
  readonly start: number
}

export function addKeysImport(keys: Command, cli: Cli): void {
  withWhy(keys.command(NAME))
    .requiredOption(
      '-f, --file <file>',
      'CSV with a first line of names, or JSON lines; - is standard input',
    )
    .option('--start <line>', 'begin at this line of the file', wholeNumber('--start', 1), 1)
    .description('make many keys known: columns key or sha256, user, plan, name, state')
    .addHelpText('after', helpOf(EXAMPLES))
    .action((flags: ImportFlags) => run(cli, flags, (session) => importKeys(session, flags)))
}

const EXAMPLES = `sluice keys import -f keys.csv
sluice keys import -f keys.jsonl --start 3001`

async function importKeys(session: Session, { file: path, start, why }: ImportFlags) {
  const { io, client, tell } = session
  const { text, file } = await readNamed(io, path, BYTES_MAX)
  const { keys, problems } = readKeyList(text, file)
  if (problems.length > 0) {
    for (const problem of problems) io.err(`${safe(problem)}\n`)
    io.err('Nothing was sent.\n')
    return REFUSED
  }
  const wanted = keys.filter(({ line }) => line >= start)
  let done = 0
  for (const batch of batchesOf(wanted)) {
    try {
      await client.addKeys(
        batch.map(({ key }) => key),
        { why },
      )
    } catch (error) {
      endProgress(io)
      io.err(
        `${done} of ${wanted.length} keys are in. Go on with --start ${batch[0]?.line ?? start}\n`,
      )
      throw error
    }
    done += batch.length
    progress(io, done, wanted.length)
  }
  endProgress(io)
  tell({ imported: done }, () => `${done} keys are known now.\n`)
  return OK
}

function* batchesOf(keys: readonly PlacedKey[]): Generator<readonly PlacedKey[]> {
  let batch: PlacedKey[] = []
  let bytes = 0
  for (const placed of keys) {
    const size = Buffer.byteLength(JSON.stringify(placed.key)) + 1
    if (batch.length === BATCH || (bytes + size > BATCH_BYTES_MAX && batch.length > 0)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(placed)
    bytes += size
  }
  if (batch.length > 0) yield batch
}

/** On a terminal one line that is written over; in a log a line now and then. */
function progress(io: Session['io'], done: number, of: number): void {
  const text = `${done} of ${of} keys`
  if (io.isTerminal) io.err(`\r${text}`)
  else if (done % LOGGED_EVERY < BATCH) io.err(`${text}\n`)
}

function endProgress(io: Session['io']): void {
  if (io.isTerminal) io.err('\n')
}
