/**
 * `@sluice/core/text`: readable descriptions of rules, shared by the server, the CLI and the
 * dashboard. It has no I/O, so that a browser can load it.
 */
export {
  type DurationRounding,
  durationText,
  formatDuration,
  parseDuration,
} from './duration.js'
export { limitSpecText } from './limit-text.js'
export {
  allLimitsText,
  byText,
  callerText,
  countedAttributes,
  headroomText,
  isRecord,
  limitsText,
  matchText,
  ruleLimitsText,
  valueText,
} from './rule-text.js'
export { writeRuleYaml, writeYaml, type YamlStyle } from './write-yaml.js'
