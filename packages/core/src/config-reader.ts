/**
 * The reader of rules, exported for other configuration files: it turns text into a tree and a tree
 * into values, and reports every problem at once with its position.
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
export { ACCEPTED_REGION_NAME, REGION_NAME, REGIONS_MAX } from './rules/parse-regions.js'
export { readTime } from './rules/parse-time.js'
export { nearest } from './rules/suggest.js'
export { describe, type MapEntry, type MapNode, type Node, quote, type Tree } from './rules/tree.js'
export { readValue } from './rules/object-tree.js'
