/** What the configuration says of the node that uses rules, for warnings about them. */
import type { RuleContext } from '@sluice/core'
import type { Config } from './config.js'
import { headerAttributes } from './header-attributes.js'
import { regionPlaceOf } from './parse-regions.js'

export function ruleContextOf(config: Config): RuleContext {
  return { fromHeaders: headerAttributes(config), regions: regionPlaceOf(config.regions)?.names }
}
