/** What every command of the admin API shares: its options, its client, its output. */
import { AdminError, type AdminClient, createAdminClient } from '@sluice/client'
import { findAdmin } from '@sluice/server/find-admin'
import type { Command } from 'commander'
import { UsageError, OK, NoAnswerError } from './command-errors.js'
import type { Io } from './io.js'
import { escapedJson } from './terminal-escape.js'

export interface CommonFlags {
  readonly url?: string
  readonly tokenFile?: string
  readonly insecure?: boolean
  readonly json?: boolean
}

export interface ChangeFlags extends CommonFlags {
  readonly why?: string
}

export interface CommandContext {
  readonly io: Io
  readonly client: AdminClient
  readonly isJson: boolean
  /** The result of a command: complete for `--json`, and as text. */
  readonly print: (answer: unknown, text: () => string) => void
}

/** The context of a running command. */
export interface Cli {
  readonly io: Io
  /** The exit code of the process, unless the command fails. */
  readonly exitWith: (code: number) => void
}

export function withCommon(command: Command): Command {
  return command
    .option('--url <url>', 'the admin listener (default: SLUICE_ADMIN_URL, http://127.0.0.1:9090)')
    .option('--token-file <file>', 'a file with the token (default: see the end of this help)')
    .option('--insecure', 'send the token to another machine without encryption')
    .option('--json', 'print JSON')
}

export function withWhy(command: Command): Command {
  return withCommon(command).option('--why <text>', 'the reason, recorded in the history')
}

const COMMON_HELP = `
The token: SLUICE_ADMIN_TOKEN, else the file admin-token in SLUICE_DATA_DIR or ./.sluice.
Exit codes: 0 done, 1 refused or found something, 2 misuse or no answer.`

export function helpOf(examples: string): string {
  return `\nExamples:\n${examples.trim().replaceAll(/^ */gm, '  ')}\n${COMMON_HELP}`
}

export async function run(
  { io, exitWith }: Cli,
  flags: CommonFlags,
  work: (session: CommandContext) => Promise<number | undefined>,
): Promise<void> {
  const { url, token, tried } = findConnection(flags)
  const client = createAdminClient({ url, token, insecure: flags.insecure })
  const isJson = flags.json === true
  const print: CommandContext['print'] = (answer, text) =>
    io.out(isJson ? `${escapedJson(answer)}\n` : text())
  try {
    exitWith((await work({ io, client, isJson, print })) ?? OK)
  } catch (error) {
    if (!(error instanceof AdminError) || error.status !== 401) throw error
    const found = token === undefined ? 'no token' : 'a token that is not accepted there'
    throw new NoAnswerError(`${url}: found ${found} (${tried}). ${error.detail}`, { cause: error })
  }
}

function findConnection({ url, tokenFile }: CommonFlags) {
  try {
    return findAdmin({ url, tokenFile })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

/** Parses an option that is a whole number. */
export function wholeNumber(name: string, least = 0): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (/^\d{1,16}$/.test(text) && Number.isSafeInteger(value) && value >= least) return value
    throw new UsageError(`${name}: found "${text}"; accepted: a whole number from ${least}`)
  }
}
