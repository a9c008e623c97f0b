/** Limits of one caller of a rule in place of the rule's own. */
import { z } from 'zod'
import { anyList, type Input, version, type View } from './schema.js'

const caller = z.record(z.string(), z.string()).meta({
  description:
    'A value for each attribute of `by`; for `ip` an address, or a network whose callers each have the limits.',
  example: { user: 'u1' },
})

export const overrideView = z
  .object({
    id: z.string().meta({ description: 'The caller as written in URLs.', example: 'user=u1' }),
    caller,
    limits: anyList,
    until: z.string().optional(),
    version,
  })
  .meta({ id: 'Override' })
export type OverrideView = View<typeof overrideView>

export const overridesPage = z
  .object({ overrides: z.array(overrideView), next: z.string().nullable() })
  .meta({ id: 'OverridesPage' })
export type OverridesPage = View<typeof overridesPage>

export const overrideList = z.object({ overrides: z.array(overrideView) }).meta({ id: 'Overrides' })
export type OverrideList = View<typeof overrideList>

export const overrideInput = z
  .object({ caller, limits: anyList, until: z.string().optional() })
  .meta({ id: 'OverrideInput', example: { caller: { user: 'u1' }, limits: ['100/second'] } })
export type OverrideInput = Input<typeof overrideInput>

export const overridesInput = z.union([overrideInput, z.array(overrideInput)])
export type OverridesInput = Input<typeof overridesInput>

export const overridesPosted = z.union([overrideView, overrideList])
export type OverridesPosted = View<typeof overridesPosted>

export const overrideLimitsInput = z
  .object({ caller: caller.optional(), limits: anyList, until: z.string().optional() })
  .meta({ id: 'OverrideLimits', example: { limits: ['100/second'] } })
export type OverrideLimitsInput = Input<typeof overrideLimitsInput>
