import { type AgentChange, type Agents, type NewAgent, viewAgent } from '../../agents/agents.ts'
import type { ApprovalBook } from '../../approvals/approvalBook.ts'
import { VaultError } from '../../errors/error.ts'
import type { Pairings } from '../../ports/pairings.ts'
import type { pairingRequest } from '../../requests/ownerRequests.ts'
import type { InputOf } from '../../requests/request.ts'
import type { Gate, OwnerContext } from '../caller.ts'
import { assertMayAdd, assertMayChange, assertMayHandOver } from './pageLimits.ts'

/** Operations of the owner on agents. */
export function createAgentsApi(gate: Gate, registry: Agents, book: ApprovalBook) {
  return {
    list(context: OwnerContext) {
      gate.open(context)
      return { agents: registry.list().map(viewAgent) }
    },
    async add(agent: NewAgent, context: OwnerContext) {
      gate.open(context)
      assertMayAdd(context, agent)
      const { agent: added, token } = await registry.add(agent)
      await gate.note('CONFIG', context.requestId, `agent ${added.name} added`)
      return { ...viewAgent(added), token }
    },
    async update(id: string, change: AgentChange, context: OwnerContext) {
      gate.open(context)
      const agent = await registry.update(id, change, (now) => {
        if (change.scopes !== undefined) assertMayChange(context, now, change.scopes)
      })
      await gate.note(
        'CONFIG',
        context.requestId,
        `agent ${agent.name} ${change.suspended === false ? 'resumed after the restore' : 'changed'}`,
      )
      return viewAgent(agent)
    },
    async rotate(id: string, context: OwnerContext) {
      gate.open(context)
      const { agent, token } = await registry.rotate(id, (now) =>
        assertMayHandOver(context, now, ['agents', 'rotate', now.name]),
      )
      await gate.note('CONFIG', context.requestId, `agent ${agent.name} has a new token`)
      return { ...viewAgent(agent), token }
    },
    async revoke(id: string, context: OwnerContext) {
      gate.open(context)
      const agent = await registry.revoke(id)
      for (const record of book.list())
        if (record.agentId === agent.id && (record.state === 'pending' || record.state === 'approved'))
          await book.cancel(record.id, 'owner').catch(() => undefined)
      await gate.note('REVOKE', context.requestId, `agent ${agent.name} revoked`)
      return viewAgent(agent)
    },
  }
}

/** Operations of the owner on pairings with agents on other machines. @param connected undefined where no relay is configured */
export function createPairingsApi(gate: Gate, registry: Agents, connected: Pairings | undefined) {
  function pairings(): Pairings {
    if (connected === undefined)
      throw new VaultError(
        'NOT_FOUND',
        'This vault is not connected to a relay. Start the vault with --relay.',
      )
    return connected
  }

  return {
    list(context: OwnerContext) {
      gate.open(context)
      return { pairings: pairings().list() }
    },
    async create(
      { service_id: serviceId, agent: name }: InputOf<typeof pairingRequest>,
      context: OwnerContext,
    ) {
      gate.open(context)
      const agent = registry.byName(name) ?? registry.get(name)
      if (agent === undefined || agent.revokedAt !== null)
        throw new VaultError('NOT_FOUND', 'No agent has this name. Add the agent first.')
      assertMayHandOver(context, agent, ['pair', 'new', serviceId, '--agent', agent.name])
      const offer = await pairings().create({ serviceId, agentId: agent.id })
      await gate.note('PAIR', context.requestId, `pairing ${offer.id} offered to ${agent.name}`)
      return offer
    },
    /** The owner confirms or denies that both sides show the same four words. */
    async confirm(id: string, isSame: boolean, context: OwnerContext) {
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
    /** Resumes a pairing that a restore suspended. */
    async resume(id: string, context: OwnerContext) {
      gate.open(context)
      await pairings().resume(id)
      await gate.note('PAIR', context.requestId, `pairing ${id} resumed after the restore`)
      return { id }
    },
    /** Creates the vault's next key for proxies. Paired proxies switch to it automatically. */
    async rotateKey(context: OwnerContext) {
      gate.open(context)
      const generation = await pairings().rotateKey()
      await gate.note(
        'PAIR',
        context.requestId,
        `the vault's key for remote agents rotated: generation ${generation}`,
      )
      return { generation }
    },
    async revoke(id: string, context: OwnerContext) {
      gate.open(context)
      await pairings().revoke(id)
      await gate.note('REVOKE', context.requestId, `pairing ${id} ended`)
      return { id }
    },
  }
}
