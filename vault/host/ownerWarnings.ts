import type { Agents } from '../agents/agents.ts'
import { derivedKeyId } from '../keys/derivation.ts'
import type { AuditWarning } from '../ports/audit.ts'
import { keyOn } from './chainOf.ts'
import type { VaultDeps } from './deps.ts'
import type { StoredRules } from './ownerRules.ts'

/** A warning about this vault and its remedy, shown at the start, in the status and on the page. */
export interface OwnerWarning {
  readonly code:
    | 'TEST_KEYS_SHARED'
    | 'RULES_WITHOUT_ASSET'
    | 'BUDGET_DAY_AHEAD'
    | 'CHANNEL_TROUBLE'
    | AuditWarning['code']
  readonly message: string
  /** The remedy. */
  readonly action: string
}

export interface WarnedAbout extends Pick<VaultDeps, 'vault' | 'enabled' | 'assets'> {
  readonly rules: StoredRules
  readonly registry: Agents
  /** Why an approval channel cannot deliver approvals, by plugin id. */
  readonly troubles: ReadonlyMap<string, string>
}

/** The warnings for the owner. While the vault is locked, only the log can be checked. */
export function ownerWarnings(parts: WarnedAbout): OwnerWarning[] {
  const ofLog = parts.vault.audit.warnings
  const ofChannels = [...parts.troubles].map(channelTrouble)
  if (parts.vault.state.locked) return [...ofLog, ...ofChannels]
  return [...ofLog, ...ofChannels, ...sharedKeys(parts), ...lostRules(parts), ...laterDay(parts)]
}

const channelTrouble = ([plugin, problem]: [string, string]): OwnerWarning => ({
  code: 'CHANNEL_TROUBLE',
  message: `The plugin ${plugin} cannot deliver approval requests: ${problem}`,
  action:
    'The plugin retries while an approval is open. Until the plugin recovers, decide on the page or with: tollgate vault approvals',
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
      message: `The address on ${titles} is also used on a chain with real money, and a signature may be valid on both. Rules do not approve requests that could be replayed there, so you are asked each time.`,
      action: `Use keys that are for test chains only: ${commands.join(' and ')}. Test funds stay at the old address. Move them first, or use a faucet again.`,
    },
  ]
}

const lostRules = ({ rules, registry }: WarnedAbout): OwnerWarning[] =>
  rules.lost.map(({ id, about }) => {
    const owner = registry.get(id)?.name ?? id
    return {
      code: 'RULES_WITHOUT_ASSET',
      message: `Some rules of the policy ${owner} do not apply, because the configuration no longer has what they name: ${about.join(', ')}. Requests that they would have allowed are refused.`,
      action: `Restore the missing entries under assets or chains in the configuration, or set the policy again: tollgate vault policies set ${owner}.`,
    }
  })

function laterDay({ vault }: WarnedAbout): OwnerWarning[] {
  const day = vault.budget.laterDay()
  if (day === undefined) return []
  return [
    {
      code: 'BUDGET_DAY_AHEAD',
      message: `The budgets count for ${day}, a future date that this machine's clock once showed. The budgets reset only after that day.`,
      action:
        'If the clock is correct now, run: tollgate vault policies reset-day. Amounts already used still count today.',
    },
  ]
}
