import { type ApprovalRecord, type Viewer, viewApproval } from '../../approvals/approval.ts'
import type { ApprovalBook } from '../../approvals/approvalBook.ts'
import { VaultError } from '../../errors/error.ts'
import { type Caller, callerId, callerName, type OwnerContext } from '../caller.ts'
import type { VaultApi } from '../vaultApi.ts'
import type { Gate } from './gate.ts'
import { assertMayApprove } from './pageLimits.ts'

const MOST_SHOWN = 500

/** Questions to the owner: agents see and cancel their own, the owner decides. */
export function createApprovalsApi(gate: Gate, book: ApprovalBook): VaultApi['approvals'] {
  /** An approval that this caller may know of. */
  function own(id: string, context: OwnerContext): ApprovalRecord {
    const caller = gate.known(context)
    const record = book.get(id)
    const isOurs = caller.kind === 'owner' || record?.agentId === callerId(caller)
    if (record === undefined || !isOurs) throw new VaultError('NOT_FOUND', 'There is no approval of this id.')
    return record
  }

  return {
    list(context, { status } = {}) {
      const caller = gate.known(context)
      const id = callerId(caller)
      const all = book.list().filter((record) => caller.kind === 'owner' || record.agentId === id)
      const wanted = status === undefined ? all : all.filter((record) => record.state === status)
      // Of what is open the owner sees all: the oldest are those that end next. Of the rest, and an agent, the newest.
      const isShown = ({ state }: ApprovalRecord, at: number) =>
        at < MOST_SHOWN || (caller.kind === 'owner' && state === 'pending')
      const views = wanted.filter(isShown).map((record) => viewApproval(record, viewerOf(caller)))
      // An agent knows what it sent, and its answers have to fit through a relay.
      return { approvals: caller.kind === 'owner' ? views : views.map((view) => ({ ...view, parts: [] })) }
    },
    get: (id, context) => viewApproval(own(id, context), viewer(context)),
    async approve(id, decisionHash, context, secondWord) {
      gate.open(context)
      if (typeof decisionHash !== 'string' || decisionHash === '')
        throw new VaultError(
          'VALIDATION_ERROR',
          'decision_hash: Expected the one of the approval as it was shown.',
        )
      assertMayApprove(context, book.get(id))
      return viewApproval(await book.approve(id, decisionHash, 'owner', secondWord), viewer(context))
    },
    async deny(id, context) {
      gate.open(context)
      return viewApproval(await book.deny(id, 'owner'), viewer(context))
    },
    async cancel(id, context) {
      own(id, context)
      return viewApproval(await book.cancel(id, callerName(context.caller)), viewer(context))
    },
  }
}

/** As whom a caller looks at an approval. */
export const viewerOf = ({ kind, via }: Caller): Viewer =>
  kind !== 'owner' ? 'agent' : via === 'socket' ? 'owner' : 'page'

const viewer = ({ caller }: OwnerContext): Viewer => viewerOf(caller)
