/** `sluice rules ...` */
import type { Command } from 'commander'
import type { Cli } from '../command-context.js'
import { addRulesApply } from './rules-apply.js'
import { addRulesChange } from './rules-change.js'
import { addRulesImport } from './rules-import.js'
import { addRulesOverride } from './rules-override.js'
import { addRulesRead } from './rules-read.js'
import { addRulesRollback } from './rules-rollback.js'
import { addRulesSet } from './rules-set.js'
import { addRulesShadow } from './rules-shadow.js'

export function addRules(program: Command, cli: Cli): void {
  const rules = program
    .command('rules')
    .description('read and change the rules of running servers')
    .addHelpText('after', RULES_HELP)
  addRulesRead(rules, cli)
  addRulesApply(rules, cli)
  addRulesImport(rules, cli)
  addRulesSet(rules, cli)
  addRulesShadow(rules, cli)
  addRulesChange(rules, cli)
  addRulesRollback(rules, cli)
  addRulesOverride(rules, cli)
}

const RULES_HELP = `
Examples:
  sluice rules list
  sluice rules apply -f rules.yaml
  sluice rules set login --limits 3/minute
  sluice rules shadow per-user --why 'INC-7'

A change is live on every node within a second; docs/guides/rules.md says how.`
