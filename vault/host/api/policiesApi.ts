import type { Agents } from '../../agents/agents.ts'
import { VaultError } from '../../errors/error.ts'
import { freezeJson } from '../freeze.ts'
import type { StoredRules } from '../ownerRules.ts'
import type { VaultApi } from '../vaultApi.ts'
import type { Gate } from './gate.ts'

/** The rules by which the vault decides without asking; the owner's alone. */
export function createPoliciesApi(gate: Gate, registry: Agents, rules: StoredRules): VaultApi['policies'] {
  const policyId = (id: string): string => registry.byName(id)?.id ?? id

  return {
    list(context) {
      gate.open(context)
      return { policies: rules.list() }
    },
    get(id, context) {
      gate.open(context)
      const policy = rules.get(policyId(id))
      if (policy === undefined) throw new VaultError('NOT_FOUND', 'There is no policy of this id.')
      return { id: policyId(id), policy }
    },
    async set(id, policy, context) {
      gate.open(context)
      const target = policyId(id)
      if (target !== 'default' && target !== 'vault' && registry.get(target) === undefined)
        throw new VaultError('NOT_FOUND', 'Expected the name or id of an agent, default, or vault.')
      await rules.set(target, freezeJson(policy))
      await gate.note('CONFIG', context.requestId, `policy of ${id} set`)
      return { id: target, policy }
    },
    async delete(id, context) {
      gate.open(context)
      const deleted = await rules.delete(policyId(id))
      await gate.note('CONFIG', context.requestId, `policy of ${id} deleted`)
      return { deleted }
    },
  }
}
