/** Configurations of envoyproxy/ratelimit, for commands that check or convert them. */
export {
  type ConfigDirectory,
  readConfigDirectory,
} from './entrypoints/envoy/config/parse-directory.js'
export {
  type ImportedRules,
  type ImportNote,
  importRules,
} from './entrypoints/envoy/config/import-rules.js'
export { LimitTree } from './entrypoints/envoy/config/limit-tree.js'
