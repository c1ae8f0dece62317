import { viewAgent } from '../../agents/agent.ts'
import type { Agents } from '../../agents/agents.ts'
import type { ApprovalBook } from '../../approvals/approvalBook.ts'
import type { VaultApi } from '../vaultApi.ts'
import type { Gate } from './gate.ts'
import { assertMayAdd, assertMayChange, assertMayHandOver } from './pageLimits.ts'

/** Who may ask; the owner's alone. */
export function createAgentsApi(gate: Gate, registry: Agents, book: ApprovalBook): VaultApi['agents'] {
  return {
    list(context) {
      gate.open(context)
      return { agents: registry.list().map(viewAgent) }
    },
    async add(agent, context) {
      gate.open(context)
      assertMayAdd(context, agent)
      const { agent: added, token } = await registry.add(agent)
      await gate.note('CONFIG', context.requestId, `agent ${added.name} added`)
      return { ...viewAgent(added), token }
    },
    async update(id, change, context) {
      gate.open(context)
      const agent = await registry.update(id, change, (now) => {
        if (change.scopes !== undefined) assertMayChange(context, now, change.scopes)
      })
      await gate.note(
        'CONFIG',
        context.requestId,
        `agent ${agent.name} ${change.suspended === false ? 'goes on after the restore' : 'changed'}`,
      )
      return viewAgent(agent)
    },
    async rotate(id, context) {
      gate.open(context)
      const { agent, token } = await registry.rotate(id, (now) =>
        assertMayHandOver(context, now, ['agents', 'rotate', now.name]),
      )
      await gate.note('CONFIG', context.requestId, `agent ${agent.name} has a new token`)
      return { ...viewAgent(agent), token }
    },
    async revoke(id, context) {
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
