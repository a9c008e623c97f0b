/** `POST /simulate`: what limits would do with made-up calls. */
import { z } from 'zod'
import { count, type Input, strictObject, type View } from './schema.js'

const LIMITS_MAX = 12
const CALLS_MAX = 2000
/** A year: no window is longer. */
const MS_MAX = 366 * 86_400_000
const COST_MAX = 999_999_999_999_999
const ACCEPTED_LIMITS = `1 to ${LIMITS_MAX} limits`
const ACCEPTED_CALLS = `a list of up to ${CALLS_MAX} calls`
const ACCEPTED_AT = `milliseconds from the beginning, a whole number from 0 to ${MS_MAX}`
const ACCEPTED_COST = `a whole number from 0 to ${COST_MAX}`

export const simulatedCall = strictObject({
  atMs: z.int(ACCEPTED_AT).min(0, ACCEPTED_AT).max(MS_MAX, ACCEPTED_AT),
  cost: z.int(ACCEPTED_COST).min(0, ACCEPTED_COST).max(COST_MAX, ACCEPTED_COST).optional(),
})
export type SimulatedCall = Input<typeof simulatedCall>

export const simulationInput = strictObject({
  limits: z
    .array(z.unknown(), ACCEPTED_LIMITS)
    .min(1, ACCEPTED_LIMITS)
    .max(LIMITS_MAX, ACCEPTED_LIMITS),
  calls: z.array(simulatedCall, ACCEPTED_CALLS).max(CALLS_MAX, ACCEPTED_CALLS),
}).meta({
  id: 'SimulationInput',
  example: { limits: ['10/second'], calls: [{ atMs: 0 }, { atMs: 100, cost: 2 }] },
})
export type SimulationInput = Input<typeof simulationInput>

export const simulatedOutcome = z
  .object({
    allowed: z.boolean(),
    delayMs: count,
    remaining: z.number(),
    retryAfterMs: count.nullable(),
  })
  .meta({ id: 'SimulatedOutcome' })
export type SimulatedOutcome = View<typeof simulatedOutcome>

export const simulationView = z
  .object({
    trials: z.array(
      z.object({
        limit: z.string(),
        algorithm: z.string(),
        outcomes: z.array(simulatedOutcome).meta({ description: 'One for each call, in order.' }),
      }),
    ),
  })
  .meta({ id: 'Simulation' })
export type SimulationView = View<typeof simulationView>
