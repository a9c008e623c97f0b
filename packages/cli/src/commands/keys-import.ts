/** `sluice keys import`: adds many keys from a file. */
import { AdminError, UnreachableError } from '@sluice/client'
import type { Command } from 'commander'
import { UsageError, OK, REFUSED } from '../command-errors.js'
import { readInputFile } from '../input-files.js'
import { type PlacedKey, readKeyList } from '../key-list.js'
import { escapeTerminal } from '../terminal-escape.js'
import {
  type ChangeFlags,
  type Cli,
  helpOf,
  run,
  type CommandContext,
  withWhy,
  wholeNumber,
} from '../command-context.js'

// No single quotes: the layout check would take the following text for a module name.
const NAME = `import`
const BATCH = 1000
const LOGGED_EVERY = 100_000
const BYTES_MAX = 512 * 1024 * 1024
/** The admin API accepts bodies of up to 256 KB. */
const BATCH_BYTES_MAX = 250_000

interface ImportFlags extends ChangeFlags {
  readonly file: string
  readonly start: number
}

export function addKeysImport(keys: Command, cli: Cli): void {
  withWhy(keys.command(NAME))
    .requiredOption(
      '-f, --file <file>',
      'CSV with a header line, or JSON lines; - is standard input',
    )
    .option('--start <line>', 'start at this line of the file', wholeNumber('--start', 1), 1)
    .description('register many keys; columns: key or sha256, user, plan, name, state')
    .addHelpText('after', helpOf(EXAMPLES))
    .action((flags: ImportFlags) => run(cli, flags, (context) => importKeys(context, flags)))
}

const EXAMPLES = `sluice keys import -f keys.csv --why 'from the old gateway'
sluice keys import -f keys.jsonl --start 3001`

async function importKeys(context: CommandContext, { file: path, start, why }: ImportFlags) {
  const { io, client, print } = context
  const { text, file } = await readInputFile(io, path, BYTES_MAX)
  const { keys, problems } = readKeyList(text, file)
  if (problems.length > 0) {
    for (const problem of problems) io.err(`${escapeTerminal(problem)}\n`)
    io.err('Nothing was sent.\n')
    return REFUSED
  }
  const end = (keys.at(-1)?.line ?? 0) + 1
  if (start > end) throw new UsageError(`--start: found ${start}; accepted: up to ${end}, the end`)
  const selected = keys.filter(({ line }) => line >= start)
  let imported = 0
  for (const batch of batchesOf(selected)) {
    try {
      await client.addKeys(
        batch.map(({ key }) => key),
        { why },
      )
    } catch (error) {
      endProgress(io)
      io.err(`${imported} of ${selected.length} keys were imported. ${resumeHint(batch, error)}\n`)
      throw error instanceof AdminError ? withFileLines(error, batch, file) : error
    }
    imported += batch.length
    progress(io, { before: imported - batch.length, imported, total: selected.length })
  }
  endProgress(io)
  print({ imported: imported }, () => `Imported ${imported} ${imported === 1 ? 'key' : 'keys'}.\n`)
  return OK
}

/**
 * The line at which to resume. A batch is stored whole or not at all, even if the outcome is
 * unknown.
 */
function resumeHint(batch: readonly PlacedKey[], error: unknown): string {
  const [first, last] = [batch[0]?.line ?? 1, batch.at(-1)?.line ?? 1]
  const next = `Go on with --start ${first}`
  if (!(error instanceof UnreachableError) || !error.isUncertain) return next
  return `${next}; if it says that the first key is registered already, lines up to ${last} are in, so with --start ${last + 1}`
}

/** Converts the index in the batch, which the server reports, to the line in the file. */
function withFileLines(error: AdminError, batch: readonly PlacedKey[], file: string): AdminError {
  const inFile = (text: string) =>
    text.replaceAll(/\bkeys\[(\d{1,4})\]/g, (whole, index) => {
      const line = batch[Number(index)]?.line
      return line === undefined ? whole : `${file}:${line}`
    })
  const errors = error.errors.map((each) => ({ ...each, message: inFile(each.message) }))
  const { status, code, detail } = error
  return new AdminError({ status, code, detail: inFile(detail), errors })
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

interface Progress {
  readonly before: number
  readonly imported: number
  readonly total: number
}

/** Overwrites one line on a terminal; writes a line at intervals to a log. */
function progress(io: CommandContext['io'], { before, imported, total }: Progress): void {
  const text = `${imported} of ${total} keys`
  const isTime = Math.floor(imported / LOGGED_EVERY) > Math.floor(before / LOGGED_EVERY)
  if (io.isTerminal) io.err(`\r${text}`)
  else if (isTime) io.err(`${text}\n`)
}

function endProgress(io: CommandContext['io']): void {
  if (io.isTerminal) io.err('\n')
}
