/**
 * The types of the admin and the decision API, from the schemas of @sluice/api. The build writes
 * them into `dist/api-types.d.ts` as plain interfaces, so that users of this package need no zod.
 */
export type * from '@sluice/api'
