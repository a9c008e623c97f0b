/** Questions to the user before a change. */
import { AdminError } from '@sluice/client'
import { UsageError, REFUSED } from './command-errors.js'
import type { Io } from './io.js'

export interface ConfirmFlags {
  readonly yes?: boolean
}

/** Checked before any work: a script without a terminal must pass `--yes`. */
export function requireTerminal({ isTerminal }: Io, { yes }: ConfirmFlags, instead: string): void {
  if (yes === true || isTerminal) return
  throw new UsageError(`there is no terminal to ask on; accepted: --yes${instead}`)
}

/** Whether to go on. Everything but y and yes means no. */
export async function confirm(io: Io, { yes }: ConfirmFlags, question: string): Promise<boolean> {
  if (yes === true) return true
  const answer = await io.prompt(`${question} [y/N] `)
  return /^y(es)?$/i.test(answer.trim())
}

/** How to confirm a change for which the server requires an explicit confirmation. */
export async function explainConfirmation<T>(change: Promise<T>, flag: string): Promise<T> {
  try {
    return await change
  } catch (error) {
    if (!(error instanceof AdminError) || error.code !== 'confirmation_needed') throw error
    const found = 'this leaves no rule at all, so that every call is allowed'
    throw new Error(`${found}; accepted: ${flag}, if that is meant`, { cause: error })
  }
}

/** Ends a command whose question was answered with no. */
export function reportUnchanged(io: Io): number {
  io.err('Nothing was changed.\n')
  return REFUSED
}
