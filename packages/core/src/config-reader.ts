/**
 * The kit that rules are read with, for other files of settings: text to a tree, a tree to values,
 * every problem told at once with its place.
 */
export { parseDuration } from './text/duration.js'
export {
  isAttributeName,
  readAttributeName,
  readAttributeValue,
  readDistinct,
} from './rules/parse-attribute.js'
export { readDocument } from './rules/document.js'
export { type Diagnostics, createDiagnostics, type Problem } from './rules/diagnostics.js'
export {
  reportAt,
  reportProblemAt,
  DOCUMENT,
  fieldName,
  fieldOf,
  isWithin,
  itemsOf,
  readAnyMap,
  readBoolean,
  readChoice,
  readList,
  readMap,
  readNumber,
  readOptional,
  readRequired,
  readText,
  type Located,
  locateEntry,
} from './rules/reader.js'
export { readTime } from './rules/parse-time.js'
export { nearest } from './rules/suggest.js'
export type { MapNode } from './rules/tree.js'
export { readValue } from './rules/object-tree.js'
