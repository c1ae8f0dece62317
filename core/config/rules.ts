import type { Finding } from './check/explain.ts'
import { isInside } from './read/pointer.ts'
import { assetRules } from './rules/assets.ts'
import { feeRules } from './rules/fees.ts'
import { networkRules } from './rules/networks.ts'
import type { Rule, RuleContext } from './rules/rule.ts'
import { serverRules } from './rules/server.ts'
import type { Config } from './types.ts'

const rules: readonly Rule[] = [...serverRules, ...networkRules, ...assetRules, ...feeRules]

/** Applies the rules that the schema can't express. */
export function applyRules(context: RuleContext, found: readonly Finding[]): Finding[] {
  const isSound = (section: keyof Config) =>
    context.config[section] !== undefined &&
    !found.some((finding) => finding.severity === 'error' && isInside(finding.pointer, `/${section}`))
  return rules.filter((rule) => rule.reads.every(isSound)).flatMap((rule) => [...rule.check(context)])
}
