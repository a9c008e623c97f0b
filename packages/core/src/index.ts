/** The public API of `@sluice/core`, the pure part of Sluice. */
export {
  ALGORITHM_NAMES,
  type AlgorithmName,
  algorithmOf,
  algorithms,
  layoutOf,
  STORED_ALGORITHMS,
  MODULE_CHOICES,
  MODULE_NAMES,
  type ModuleName,
  moduleOf,
  modules,
  RATE_MODULE_NAMES,
} from './algorithms/index.js'
export type { Algorithm, Outcome, StateLayout, Step } from './algorithms/algorithm.js'
export {
  type Block,
  type BlockSpec,
  blockStart,
  defineBlock,
  isBlock,
} from './algorithms/block.js'
export type { FixedWindow } from './algorithms/fixed-window.js'
export { owedStep, peekOf, stepOf } from './algorithms/metered.js'
export { mostDebt } from './algorithms/precision.js'
export type { LeakyBucket } from './algorithms/leaky-bucket.js'
export type { SlidingCounter } from './algorithms/sliding-window-counter.js'
export {
  isConcurrency,
  type PlaceHolder,
  placeHolders,
  type Places,
  PLACES_RETRY_MS,
} from './algorithms/concurrency.js'
export { LOG_INSTANTS_SHOWN, type Log, shortenLog } from './algorithms/sliding-window-log.js'
export type { Bucket } from './algorithms/token-bucket.js'
export {
  type LimitWindows,
  windowEndOf,
  windowNumberOf,
  windowStartOf,
} from './algorithms/window-edges.js'
export {
  ATTRIBUTE_LENGTH_MAX,
  type Attributes,
  CANONICAL_PATH,
  type Call,
  MESSAGE,
  readAttribute,
} from './call.js'
export { type Calendar, type CalendarUnit, calendarWindowAt, isTimeZone } from './calendar.js'
export {
  combine,
  type BindingCaller,
  type CallerVisit,
  type Decision,
  type DecisionExtras,
  type Policy,
  policyOf,
  type PostureName,
  type Postures,
  type Reason,
  type RuleOutcome,
  type Source,
  shedDecision,
  shedRetryMs,
  UNMATCHED,
  unmatchedDecision,
} from './decision/decision.js'
export { passes } from './decision/outcomes.js'
export type { ShadowRefusal } from './decision/shadow-refusals.js'
export {
  type HeaderOptions,
  flatRateLimitHeaders,
  type Headers,
  jitterMs,
  rateLimitHeaders,
  retryAfterSeconds,
  type StandardHeaders,
} from './decision/headers.js'
export {
  type FlatHeaders,
  type HttpResponse,
  PROBLEM_TYPE,
  problemObject,
  type RefusalOptions,
  refusalResponse,
} from './decision/http-response.js'
export { ALLOW_CREDENTIALS, EXPOSE_HEADERS, exposeHeaders } from './decision/exposed-headers.js'
export {
  explainRules,
  type LimitExplanation,
  type RuleExplanation,
} from './decision/explain-rules.js'
export {
  amountOf,
  candidateId,
  isChargedOnRefusal,
  type Plan,
  type PlannedTake,
  planCall,
  type PlanOptions,
  type Take,
} from './decision/plan.js'
export {
  closeReason,
  type ProblemBody,
  type ProblemOptions,
  problemBody,
} from './decision/problem-body.js'
export { type ChargedEntry, chargedEntry } from './decision/charged-entry.js'
export { readReceipt, writeReceipt } from './decision/receipt.js'
export {
  handleKey,
  readHandle,
  type ReservationHandle,
  type ReservedEntry,
  writeHandle,
} from './decision/reservation-handle.js'
export { durationText, formatDuration, parseDuration, WINDOW_MS_MAX } from './text/duration.js'
export { ERROR_CODES, type ErrorCode, SluiceError, show, sluiceErrorOf } from './errors.js'
export {
  type Address,
  canonicalIp,
  formatAddress,
  groupAddress,
  IPV6_PREFIX_DEFAULT,
  IPV6_PREFIX_MAX,
  IPV6_PREFIX_MIN,
  parseAddress,
} from './identity/address.js'
export { type Cidr, cidrContains, parseCidr, parseTrustedProxies } from './identity/cidr.js'
export { clientAddress } from './identity/client-address.js'
export {
  type CounterKey,
  callerHash,
  callerOfKey,
  counterKey,
  deriveKey,
  limitSeed,
  PARTITIONS,
  extendedKey,
  extensionKey,
  madeKey,
  reservationId,
  settledKey,
} from './key.js'
export {
  asFixedWindow,
  DEFAULT_ALGORITHM,
  counterLimit,
  defineAdapterLimit,
  defineLimit,
  findLimitProblem,
  type Limit,
  limitNameOf,
  type LimitSpec,
  resizeLimit,
  withDebt,
  withoutWaiting,
} from './limit.js'
export {
  callersOf,
  type CallerLimits,
  limitsOfCaller,
  type NamedCaller,
} from './matching/caller-limits.js'
export { type CompileOptions, compileRules } from './matching/compile.js'
export { SingleRuleCompiler } from './matching/compile-single.js'
export { ceilingLimit, ceilingUnits, partUnderCeiling, wholeLimit } from './matching/ceilings.js'
export { placesByRule, withoutPlaces } from './matching/in-flight.js'
export type { RegionPlace } from './matching/region-limits.js'
export type { Priority } from './matching/classify.js'
export { canonicalValue, type CanonicalOptions } from './matching/compile-limits.js'
export type { CompiledLimit, CompiledRule, CompiledShed, Snapshot } from './matching/compiled.js'
export { explainMatches, type MatchExplanation } from './matching/explain-matches.js'
export {
  type NormalizedCall,
  normalizeCall,
  readNormalized,
} from './matching/call-view.js'
export {
  callerOf,
  type MatchedRule,
  matchRules,
  type CallerRule,
  rulesOfCaller,
} from './matching/match.js'
export {
  type ChangedCaller,
  changeOverrides,
  overrideLimitsOf,
  type OverrideChange,
  replaceOverrides,
} from './matching/overrides.js'
export { canonicalPath, foldPath, matchPattern, type PathPattern, parsePattern } from './path.js'
export { SHARE_WHOLE } from './matching/ceilings.js'
export { gcd, isCount, MAX_UNITS } from './numbers.js'
export { formatHash, type Hash64, hashTexts, type SipKey, sipKey } from './sip-hash.js'
export { type CounterFate, diffRules, type RuleChange, type RuleDiff } from './rules/diff.js'
export { limitSpecText } from './text/limit-text.js'
export { type ParsedOverride, parseOverride } from './rules/parse-override.js'
export { RuleCache } from './rules/incremental-parse.js'
export { REGIONS_MAX, TOLERANCE, toleratedOffer } from './rules/parse-regions.js'
export { type ParsedRules, parseRules, type RuleContext } from './rules/parse-rules.js'
export { type ParsedData, parseData } from './rules/parse-data.js'
export type { Problem } from './rules/diagnostics.js'
export type * from './rules/rule.js'
export { writeYaml } from './text/write-yaml.js'
