/** `sluice rules ...` */
import type { Command } from 'commander'
import type { Cli } from '../session.js'
import { addRulesApply } from './rules-apply.js'
import { addRulesChange } from './rules-change.js'
import { addRulesOverride } from './rules-override.js'
import { addRulesRead } from './rules-read.js'

export function addRules(program: Command, cli: Cli): void {
  const rules = program
    .command('rules')
    .description('read and change the rules of running servers')
    .addHelpText('after', RULES_HELP)
  addRulesRead(rules, cli)
  addRulesApply(rules, cli)
  addRulesChange(rules, cli)
  addRulesOverride(rules, cli)
}

const RULES_HELP = `
Examples:
  sluice rules list
  sluice rules apply -f rules.yaml
  sluice rules shadow per-user --why 'INC-7'

A change is live on every node within a second; docs/guides/rules.md says how.`
