import type { Agents } from '../agents/agents.ts'
import { derivedKeyId } from '../keys/keyId.ts'
import type { AuditWarning } from '../ports/audit.ts'
import { keyOn } from './chainOf.ts'
import type { StoredRules } from './ownerRules.ts'
import type { VaultParts } from './parts.ts'

/** Something about this vault that its owner should know and mend; shown at the start, in the status and on the page. */
export interface OwnerWarning {
  readonly code:
    | 'TEST_KEYS_SHARED'
    | 'RULES_WITHOUT_ASSET'
    | 'BUDGET_DAY_AHEAD'
    | 'CHANNEL_TROUBLE'
    | AuditWarning['code']
  readonly message: string
  /** What to do about it. */
  readonly action: string
}

export interface WarnedAbout extends Pick<VaultParts, 'vault' | 'enabled' | 'assets'> {
  readonly rules: StoredRules
  readonly registry: Agents
  /** Why an approval channel can't ask, by its plugin. */
  readonly troubles: ReadonlyMap<string, string>
}

/** What the owner should know; of a locked vault nothing is known but its log. */
export function ownerWarnings(parts: WarnedAbout): OwnerWarning[] {
  const ofLog = parts.vault.audit.warnings
  const ofChannels = [...parts.troubles].map(channelTrouble)
  if (parts.vault.state.locked) return [...ofLog, ...ofChannels]
  return [...ofLog, ...ofChannels, ...sharedKeys(parts), ...lostRules(parts), ...laterDay(parts)]
}

const channelTrouble = ([plugin, problem]: [string, string]): OwnerWarning => ({
  code: 'CHANNEL_TROUBLE',
  message: `The plugin ${plugin} can't show questions: ${problem}`,
  action:
    'It tries again while a question is open. Until then answer on the page, or with tollgate vault approvals.',
})

function sharedKeys({ vault, enabled, assets }: WarnedAbout): OwnerWarning[] {
  const shared = enabled
    .map((name) => assets.chains.of(name))
    .filter((facts) => facts.isTest)
    .map((facts) => ({ title: facts.title, key: keyOn(vault, facts) }))
    .filter(({ key }) => vault.keys.isShared(key))
  if (shared.length === 0) return []
  const titles = shared.map(({ title }) => title).join(' and ')
  const families = [...new Set(shared.map(({ key }) => key.family))]
  const commands = families.map((family) => `tollgate vault keys use ${derivedKeyId(family, 0, true)}`)
  return [
    {
      code: 'TEST_KEYS_SHARED',
      message: `The address on ${titles} is the one of a chain where money is real, and a signature may be good on both. So no rule approves what could be used there, and you are asked.`,
      action: `Use keys that are for test chains only: ${commands.join(' and ')}. What lies at the address on test chains stays there; move it before, or ask a faucet again.`,
    },
  ]
}

const lostRules = ({ rules, registry }: WarnedAbout): OwnerWarning[] =>
  rules.lost().map(({ id, about }) => {
    const whose = registry.get(id)?.name ?? id
    return {
      code: 'RULES_WITHOUT_ASSET',
      message: `Rules of the policy ${whose} do not apply, because the configuration lacks what they name: ${about.join(', ')}. What they would have allowed is refused.`,
      action: `Put it back among assets or chains of the configuration, or set the policy anew: tollgate vault policies set ${whose}.`,
    }
  })

function laterDay({ vault }: WarnedAbout): OwnerWarning[] {
  const day = vault.budget.laterDay()
  if (day === undefined) return []
  return [
    {
      code: 'BUDGET_DAY_AHEAD',
      message: `The budgets count for ${day}, which the clock of this machine once said. They are not filled again until that day is over.`,
      action: 'If the clock is right now: tollgate vault policies reset-day. What was used stays used today.',
    },
  ]
}
