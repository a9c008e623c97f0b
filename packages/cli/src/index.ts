/** The `sluice` command. Exit codes: 0 ok, 1 refused or found something, 2 misuse. */
import { Command } from 'commander'
import { addAlerts } from './commands/alerts-command.js'
import { addDecide } from './commands/decide-command.js'
import { addKeys } from './commands/keys-command.js'
import { addNodes } from './commands/nodes-command.js'
import { addRules } from './commands/rules-command.js'
import { addServe } from './commands/serve-command.js'
import { addTokens } from './commands/tokens-command.js'
import { addTop } from './commands/top-command.js'
import { describeFailure, MISUSE, OK } from './command-errors.js'
import { type Io, processIo } from './io.js'
import { RELEASE } from './generated/release.js'
import { escapeTerminal } from './terminal-escape.js'
import type { Cli } from './command-context.js'

export type { Io } from './io.js'

/** Runs one command line; resolves to the exit code when it has ended. */
export async function main(argv: readonly string[], io: Io = processIo()): Promise<number> {
  let code = OK
  const cli: Cli = {
    io,
    exitWith: (ending) => {
      code = ending
    },
  }
  try {
    await programOf(cli).parseAsync(argv, { from: 'user' })
  } catch (error) {
    // Help and version are results; everything else that commander throws is misuse.
    if (isCommanderExit(error)) code = error.exitCode === 0 ? OK : MISUSE
    else code = fail(io, error)
  }
  try {
    await io.flush()
  } catch (error) {
    code = Math.max(code, fail(io, error))
  }
  return code
}

function fail(io: Io, error: unknown): number {
  const { code, text } = describeFailure(error)
  io.err(text)
  return code
}

const HELP = `
Examples:
  sluice serve
  sluice rules list
  sluice peek user=u1 method=GET path=/v1/orders

sluice <command> --help has the options and examples of each; docs/reference/cli.md has all.`

function programOf(cli: Cli): Command {
  const { io } = cli
  const program = new Command('sluice')
    .description('A distributed rate limiter: decides for every call whether it still has budget.')
    .version(RELEASE)
    .exitOverride()
    .showHelpAfterError()
    .addHelpText('after', HELP)
    .configureOutput({ writeOut: io.out, writeErr: (text) => io.err(escapeTerminal(text)) })
  addServe(program, cli)
  addRules(program, cli)
  addKeys(program, cli)
  addDecide(program, cli)
  addTop(program, cli)
  addAlerts(program, cli)
  addNodes(program, cli)
  addTokens(program, cli)
  return program
}

function isCommanderExit(error: unknown): error is { readonly exitCode: number } {
  return error instanceof Error && 'exitCode' in error && typeof error.exitCode === 'number'
}
