/** Query parameters. Each arrives as text; its message says what is accepted. */
import { z } from 'zod'
import { show } from '@sluice/core'

const LIMIT_MAX = 1000
const LIMIT_DEFAULT = 100
const ACCEPTED_LIMIT = `a whole number from 1 to ${LIMIT_MAX}`
const TEXT_LENGTH_MAX = 8192
const ACCEPTED_TEXT = `text of up to ${TEXT_LENGTH_MAX} characters`
const FILE_LENGTH_MAX = 256
const ACCEPTED_FILE = `up to ${FILE_LENGTH_MAX} printable characters`

/** A query parameter, which always arrives as text. */
function wholeNumber(most: number, accepted: string) {
  return z.string().transform((text, context) => {
    const number = /^[1-9][0-9]{0,15}$/.test(text) ? Number(text) : 0
    if (number >= 1 && number <= most) return number
    context.addIssue({ code: 'custom', message: accepted })
    return z.NEVER
  })
}

export const flag = z
  .string()
  .transform((text, context) => {
    if (text === 'true' || text === 'false') return text === 'true'
    context.addIssue({ code: 'custom', message: 'true or false' })
    return z.NEVER
  })
  .optional()

export const limit = wholeNumber(LIMIT_MAX, ACCEPTED_LIMIT)
  .default(LIMIT_DEFAULT)
  .meta({ type: 'integer', minimum: 1, maximum: LIMIT_MAX })

const TOP_MAX = 100
const TOP_DEFAULT = 20

export const topLimit = wholeNumber(TOP_MAX, `a whole number from 1 to ${TOP_MAX}`)
  .default(TOP_DEFAULT)
  .meta({ type: 'integer', minimum: 1, maximum: TOP_MAX })

export const after = z
  .string()
  .max(TEXT_LENGTH_MAX, ACCEPTED_TEXT)
  .optional()
  .meta({ description: 'The `next` of the page before.' })

export const before = wholeNumber(Number.MAX_SAFE_INTEGER, 'a version: a whole number from 1')
  .optional()
  .meta({ type: 'integer', minimum: 1, description: 'Only versions below this one.' })

export const text = z.string().max(TEXT_LENGTH_MAX, ACCEPTED_TEXT).optional()

export const file = z
  .string()
  .refine((name_) => show(name_, FILE_LENGTH_MAX) === name_, ACCEPTED_FILE)
  .optional()
  .meta({ description: 'Named in messages.', maxLength: FILE_LENGTH_MAX })

/** `confirm=last-rule`: a word that is not sent by accident. */
export function confirmation(word: string, means: string) {
  return z
    .string()
    .refine((sent) => sent === word, word)
    .optional()
    .meta({ enum: [word], description: means })
}
