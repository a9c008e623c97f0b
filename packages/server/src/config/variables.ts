/** Reads variables like the same values in a file; the name of the variable is the field. */
import type { Located } from '@sluice/core/config-reader'

export type Environment = Readonly<Record<string, string | undefined>>

export function locateVariable(
  value: string,
  { field, report }: Pick<Located, 'field' | 'report'>,
): Located {
  return { node: { kind: 'scalar', at: -1, value }, field, report }
}

/** Parses the text like an unquoted value in a file. */
export function numeric(located: Located): Located {
  const { node } = located
  if (node.kind !== 'scalar' || !/^-?\d{1,15}$/.test(String(node.value))) return located
  return { ...located, node: { ...node, value: Number(node.value), source: String(node.value) } }
}

/** Accepts only the two words of an unquoted value in a file, not 1 or yes. */
export function asBoolean(located: Located): Located {
  const { node } = located
  if (node.kind !== 'scalar' || (node.value !== 'true' && node.value !== 'false')) return located
  return { ...located, node: { ...node, value: node.value === 'true' } }
}
