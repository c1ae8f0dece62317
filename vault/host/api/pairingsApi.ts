import type { Agents } from '../../agents/agents.ts'
import { VaultError } from '../../errors/error.ts'
import type { Pairings } from '../../ports/pairings.ts'
import type { VaultApi } from '../vaultApi.ts'
import type { Gate } from './gate.ts'
import { assertMayHandOver } from './pageLimits.ts'

/** Agents on other machines; the owner's alone. @param connected undefined where no relay is configured */
export function createPairingsApi(
  gate: Gate,
  registry: Agents,
  connected: Pairings | undefined,
): VaultApi['pairings'] {
  function pairings(): Pairings {
    if (connected === undefined)
      throw new VaultError('NOT_FOUND', 'This vault speaks to no relay; start it with --relay.')
    return connected
  }

  return {
    list(context) {
      gate.open(context)
      return { pairings: pairings().list() }
    },
    async create({ service_id: serviceId, agent: name }, context) {
      gate.open(context)
      const agent = registry.byName(name) ?? registry.get(name)
      if (agent === undefined || agent.revokedAt !== null)
        throw new VaultError('NOT_FOUND', 'There is no agent of this name; add it first.')
      assertMayHandOver(context, agent, ['pair', 'new', serviceId, '--agent', agent.name])
      const offer = await pairings().create({ serviceId, agentId: agent.id })
      await gate.note('PAIR', context.requestId, `pairing ${offer.id} offered to ${agent.name}`)
      return offer
    },
    async confirm(id, isSame, context) {
      gate.open(context)
      const agent = registry.get(
        pairings()
          .list()
          .find((one) => one.id === id)?.agent_id ?? '',
      )
      if (isSame && agent !== undefined) assertMayHandOver(context, agent, ['pair', 'confirm', id])
      await pairings().confirm(id, isSame)
      await gate.note('PAIR', context.requestId, `pairing ${id} ${isSame ? 'confirmed' : 'refused'}`)
      return { id }
    },
    async resume(id, context) {
      gate.open(context)
      await pairings().resume(id)
      await gate.note('PAIR', context.requestId, `pairing ${id} goes on after the restore`)
      return { id }
    },
    async rotateKey(context) {
      gate.open(context)
      const generation = await pairings().rotateKey()
      await gate.note('PAIR', context.requestId, `key ${generation} of the vault for remote agents`)
      return { generation }
    },
    async revoke(id, context) {
      gate.open(context)
      await pairings().revoke(id)
      await gate.note('REVOKE', context.requestId, `pairing ${id} ended`)
      return { id }
    },
  }
}
